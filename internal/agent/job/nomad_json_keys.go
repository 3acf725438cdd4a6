// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

// ServerKeys are those of any job that Nomad's servers, or this agent, fill in.
func ServerKeys() []string {
	return []string{
		"ConsulNamespace", "CreateIndex", "Dispatched", "JobModifyIndex", "ModifyIndex", "NomadTokenID", "Payload", "Stable", "Status",
		"StatusDescription", "SubmitTime", "TachoNotes", "VaultNamespace", "Version", "DispatchIdempotencyToken", "VersionTag",
	}
}

func jobKeys() keys {
	all := keys{
		"ID": ignored(), "Name": literal("name"), "Namespace": literal("namespace"), "Region": literal("region"), "Type": literal("type"),
		"Datacenters": scalar("datacenters"), "Meta": literal("meta"), "Stop": ignored(), "NodePool": ignored("default", "all"),
		"Constraints": block("constraint", constraintKeys), "Affinities": named("affinity"), "Spreads": named("spread"), "UI": named("ui"),
		"TaskGroups": labelledBlocks("group", "Name", groupKeys), "Update": updateKeys, "Migrate": named("migrate"),
		"Reschedule": block("reschedule", rescheduleKeys), "Periodic": named("periodic"), "ParameterizedJob": named("parameterized"),
		"Multiregion": named("multiregion"), "ParentID": scalar("parent_id"),
	}
	for _, key := range ServerKeys() {
		all[key] = ignored()
	}
	return all
}

func groupKeys() keys {
	return keys{
		"Name": ignored(), "Count": always("count"), "Meta": literal("meta"), "Tasks": labelledBlocks("task", "Name", taskKeys),
		"Constraints": block("constraint", constraintKeys), "Affinities": named("affinity"), "Spreads": named("spread"),
		"RestartPolicy": block("restart", restartKeys), "ReschedulePolicy": block("reschedule", rescheduleKeys),
		"EphemeralDisk": setBlock("ephemeral_disk", diskKeys), "Update": updateKeys, "Migrate": named("migrate"), "Disconnect": named("disconnect"),
		"Networks": block("network", networkKeys), "Services": serviceKeys, "Volumes": named("volume"), "Scaling": scalingKeys,
		"Consul": named("consul"), "Ports": ignored(), "DiskMB": ignored(), "ShutdownDelay": positiveSpan("shutdown_delay"),
	}
}

func taskKeys() keys {
	return keys{
		"Name": ignored(), "Config": body("config"), "Env": scalar("env"), "Meta": literal("meta"), "Driver": literal("driver"),
		"User": literal("user"), "Resources": block("resources", resourceKeys), "RestartPolicy": block("restart", restartKeys),
		"KillTimeout": span("kill_timeout"), "LogConfig": setBlock("logs", logKeys), "Lifecycle": block("lifecycle", plainKeys),
		"Templates": block("template", templateKeys), "Constraints": block("constraint", constraintKeys), "Affinities": named("affinity"),
		"Services": serviceKeys, "Artifacts": named("artifact"), "Vault": named("vault"), "Consul": named("consul"),
		"DispatchPayload": named("dispatch_payload"), "VolumeMounts": named("volume_mount"), "CSIPluginConfig": named("csi_plugin"),
		"ShutdownDelay": positiveSpan("shutdown_delay"), "ScalingPolicies": named("scaling"), "Identity": named("identity"),
		"Identities": named("identity"), "Actions": named("action"), "Schedule": named("schedule"), "Secrets": named("secret"),
	}
}

func constraintKeys() keys {
	return keys{"LTarget": literal("attribute"), "RTarget": literal("value"), "Operand": literal("operator")}
}

func restartKeys() keys {
	return keys{"Attempts": always("attempts"), "Interval": span("interval"), "Delay": span("delay"), "Mode": literal("mode")}
}

func rescheduleKeys() keys {
	return keys{
		"Attempts": always("attempts"), "Interval": span("interval"), "Delay": span("delay"), "DelayFunction": literal("delay_function"),
		"MaxDelay": span("max_delay"), "Unlimited": always("unlimited"),
	}
}

func diskKeys() keys { return keys{"SizeMB": scalar("size")} }

func networkKeys() keys {
	port := labelledBlocks("port", "Label", func() keys {
		return keys{"Label": ignored(), "Value": scalar("static"), "To": scalar("to"), "HostNetwork": scalar("host_network")}
	})
	return keys{
		"ReservedPorts": port, "DynamicPorts": port, "DNS": named("dns"), "CNI": named("cni"), "MBits": scalar("mbits"),
		"Device": ignored(), "IP": ignored(), "CIDR": ignored(),
	}
}

func resourceKeys() keys {
	return keys{
		"CPU": scalar("cpu"), "MemoryMB": scalar("memory"), "MemoryMaxMB": scalar("memory_max"), "DiskMB": scalar("disk"),
		"IOPS": scalar("iops"), "Networks": named("network"), "Devices": named("device"), "NUMA": named("numa"), "SecretsMB": scalar("secrets"),
	}
}

func logKeys() keys {
	return keys{"MaxFileSizeMB": scalar("max_file_size"), "Enabled": ignored("true")}
}

// plainKeys are those of blocks whose keys have the names of a job file.
func plainKeys() keys { return nil }

func templateKeys() keys {
	return keys{
		"EmbeddedTmpl": text("data"), "DestPath": literal("destination"), "SourcePath": scalar("source"), "Envvars": scalar("env"),
		"LeftDelim": literal("left_delimiter"), "RightDelim": literal("right_delimiter"), "Splay": ignored("5000000000"),
		"Uid": ignored("-1"), "Gid": ignored("-1"), "ErrMissingKey": scalar("error_on_missing_key"), "Perms": literal("perms"),
		"ChangeScript": named("change_script"), "Wait": named("wait"), "VaultGrace": ignored(),
	}
}

// updateKeys writes an update block that says something.
func updateKeys(w *jsonWriter, path string, v any) {
	if o, ok := v.(map[string]any); ok && !unset(v) {
		w.line(path, "update {")
		w.object(path, object{"Canary": o["Canary"]}, nil)
		w.line(path, "}")
	}
}

// scalingKeys writes a scaling block that says something.
func scalingKeys(w *jsonWriter, path string, v any) {
	if o, ok := v.(map[string]any); ok && !unset(v) {
		w.line(path, "scaling {")
		w.object(path, object{"Min": o["Min"], "Max": o["Max"]}, nil)
		w.line(path, "}")
	}
}

// serviceKeys writes of services what decides whether they are supported.
func serviceKeys(w *jsonWriter, path string, v any) {
	service := func(w *jsonWriter, path string, o object) {
		w.line(path, "service {")
		w.restarts(path, o)
		if o["Checks"] != nil {
			each(func(w *jsonWriter, path string, check object) {
				w.line(path, "check {")
				w.restarts(path, check)
				w.line(path, "}")
			})(w, path+".Checks", o["Checks"])
		}
		w.line(path, "}")
	}
	each(service)(w, path, v)
}

// restarts writes what a service, or a check of it, would do to its task.
func (w *jsonWriter) restarts(path string, o object) {
	w.object(path, object{"Connect": o["Connect"], "CheckRestart": o["CheckRestart"]}, keys{
		"Connect": named("connect"), "CheckRestart": named("check_restart"),
	})
}
