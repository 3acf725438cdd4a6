// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

// ServerKeys are those of any job that Nomad's servers, or this agent, fill in.
func ServerKeys() []string {
	return []string{
		"ConsulNamespace", "CreateIndex", "Dispatched", "JobModifyIndex", "ModifyIndex", "NomadTokenID", "Payload",
		"Stable", "Status", "StatusDescription", "SubmitTime", "TachoNotes", "VaultNamespace", "Version",
		"DispatchIdempotencyToken", "VersionTag",
	}
}

// writer writes the value of a key.
type writer func(w *jsonWriter, path string, v any)

// with adds rules for keys that have the same name in a job file.
func (k keys) with(rule func(name string) writer, names ...string) keys {
	for _, name := range names {
		k[name] = rule(fileKey(name))
	}
	return k
}

// without adds keys that are not written.
func (k keys) without(names ...string) keys {
	for _, name := range names {
		k[name] = ignored()
	}
	return k
}

func jobKeys() keys {
	return keys{
		"NodePool": ignored("default", "all"), "Constraints": block("constraint", constraintKeys),
		"Affinities": named("affinity"), "Spreads": named("spread"), "UI": named("ui"),
		"TaskGroups": labelledBlocks("group", "Name", groupKeys), "Update": partly("update", "Canary"),
		"Reschedule": block("reschedule", rescheduleKeys), "ParameterizedJob": named("parameterized"),
		"ParentID": scalar("parent_id"),
	}.with(literal, "Name", "Namespace", "Region", "Type", "Meta").with(named, "Migrate", "Periodic", "Multiregion").
		without("ID", "Stop").without(ServerKeys()...)
}

func groupKeys() keys {
	return keys{
		"Tasks": labelledBlocks("task", "Name", taskKeys), "Constraints": block("constraint", constraintKeys),
		"Affinities": named("affinity"), "Spreads": named("spread"), "RestartPolicy": block("restart", restartKeys),
		"ReschedulePolicy": block("reschedule", rescheduleKeys), "EphemeralDisk": setBlock("ephemeral_disk", diskKeys),
		"Update": partly("update", "Canary"), "Networks": block("network", networkKeys), "Services": serviceKeys,
		"Volumes": named("volume"), "Scaling": partly("scaling", "Min", "Max"),
	}.with(always, "Count").with(literal, "Meta").with(positiveSpan, "ShutdownDelay").
		with(named, "Migrate", "Disconnect", "Consul").without("Name", "Ports", "DiskMB")
}

func taskKeys() keys {
	return keys{
		"Config": body("config"), "Resources": block("resources", resourceKeys),
		"RestartPolicy": block("restart", restartKeys), "LogConfig": setBlock("logs", logKeys),
		"Lifecycle": block("lifecycle", plainKeys), "Templates": block("template", templateKeys),
		"Constraints": block("constraint", constraintKeys), "Affinities": named("affinity"), "Services": serviceKeys,
		"Artifacts": named("artifact"), "VolumeMounts": named("volume_mount"), "CSIPluginConfig": named("csi_plugin"),
		"ScalingPolicies": named("scaling"), "Identities": named("identity"), "Actions": named("action"),
		"Secrets": named("secret"),
	}.with(literal, "Meta", "Driver", "User").with(span, "KillTimeout").with(positiveSpan, "ShutdownDelay").
		with(named, "Vault", "Consul", "DispatchPayload", "Identity", "Schedule").without("Name")
}

func constraintKeys() keys {
	return keys{"LTarget": literal("attribute"), "RTarget": literal("value"), "Operand": literal("operator")}
}

func restartKeys() keys {
	return keys{}.with(always, "Attempts").with(span, "Interval", "Delay").with(literal, "Mode")
}

func rescheduleKeys() keys {
	return keys{}.with(always, "Attempts", "Unlimited").with(span, "Interval", "Delay", "MaxDelay").
		with(literal, "DelayFunction")
}

func diskKeys() keys { return keys{"SizeMB": scalar("size")} }

func networkKeys() keys {
	port := labelledBlocks("port", "Label", func() keys { return keys{"Value": scalar("static")}.without("Label") })
	return keys{
		"ReservedPorts": port, "DynamicPorts": port, "DNS": named("dns"), "CNI": named("cni"), "MBits": scalar("mbits"),
	}.without("Device", "IP", "CIDR")
}

func resourceKeys() keys {
	return keys{
		"CPU": scalar("cpu"), "MemoryMB": scalar("memory"), "MemoryMaxMB": scalar("memory_max"),
		"DiskMB": scalar("disk"), "IOPS": scalar("iops"), "Networks": named("network"), "Devices": named("device"),
		"NUMA": named("numa"), "SecretsMB": scalar("secrets"),
	}
}

func logKeys() keys {
	return keys{"MaxFileSizeMB": scalar("max_file_size"), "Enabled": ignored("true")}
}

// plainKeys are those of blocks whose keys have the names of a job file.
func plainKeys() keys { return nil }

func templateKeys() keys {
	return keys{
		"EmbeddedTmpl": text("data"), "DestPath": literal("destination"), "SourcePath": scalar("source"),
		"Envvars": scalar("env"), "LeftDelim": literal("left_delimiter"), "RightDelim": literal("right_delimiter"),
		"Splay": ignored("5000000000"), "Uid": ignored("-1"), "Gid": ignored("-1"),
		"ErrMissingKey": scalar("error_on_missing_key"),
	}.with(literal, "Perms").with(named, "ChangeScript", "Wait").without("VaultGrace")
}

// partly writes some keys of an object as a block, unless nothing in the object is set.
func partly(name string, some ...string) writer {
	return func(w *jsonWriter, path string, v any) {
		o, ok := v.(map[string]any)
		if !ok || unset(v) {
			return
		}
		part := object{}
		for _, key := range some {
			part[key] = o[key]
		}
		block(name, plainKeys)(w, path, map[string]any(part))
	}
}

// serviceKeys writes of services what decides whether they are supported.
func serviceKeys(w *jsonWriter, path string, v any) {
	each(func(w *jsonWriter, path string, o object) {
		w.line(path, "service {")
		w.object(path, object{"Connect": o["Connect"]}, keys{"Connect": named("connect")})
		w.line(path, "}")
	})(w, path, v)
}
