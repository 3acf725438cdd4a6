// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-envparse"
	"github.com/zclconf/go-cty/cty"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
)

// maxVariable bounds a variable of the environment with its name: the kernel refuses to start programs with more,
// execve(2).
const maxVariable = 128<<10 - 2

// start is one start of a task: what its environment and its expressions are made of.
type start struct {
	job   *job.Job
	group *job.Group
	task  *job.Task
	// expressions are the task's that have a value now.
	expressions *job.Expressions

	allocID   string
	allocName string
	index     int
	cores     string
	dir       datadir.Allocation
	node      node.Node
	// ports are those of the group, by label.
	ports map[string]int
}

// environment returns the task's whole environment. What the env block says goes before everything, and may refer to
// all of it but itself.
func (s *start) environment() (map[string]string, error) {
	env := inherited(s.task.User)
	maps.Copy(env, s.variables())
	own, diags := s.expressions.Environment(s.scope(env))
	if diags.HasErrors() {
		return nil, job.Mistakes(diags)
	}
	maps.Copy(env, own)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if size := len(name) + len(env[name]); size > maxVariable {
			const text = "variable %.40s has %d bytes, the kernel takes %d: let the task read it from a file"
			return nil, s.task.Places.Fault("env", fmt.Errorf(text, name, size, maxVariable))
		}
	}
	return env, nil
}

// inherited is what a task takes from this process: where programs and time zones are, and who it is, unless it has a
// user of its own.
func inherited(user string) map[string]string {
	env := make(map[string]string)
	for _, name := range []string{"PATH", "LANG", "LC_ALL", "TZ", "HOME", "USER", "LOGNAME", "SHELL"} {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	driver.SetUser(env, user)
	return env
}

// variables are those that Nomad gives to a task, and the same under our own name where people look for it.
func (s *start) variables() map[string]string {
	dir := s.dir.Task(s.task.Name)
	short, _, _ := strings.Cut(s.allocID, "-")
	r := s.task.Resources
	v := map[string]string{
		"ALLOC_ID": s.allocID, "SHORT_ALLOC_ID": short, "ALLOC_NAME": s.allocName, "ALLOC_INDEX": strconv.Itoa(s.index),
		"TASK_NAME": s.task.Name, "GROUP_NAME": s.group.Name, "JOB_ID": s.job.ID, "JOB_NAME": s.job.Name,
		"NAMESPACE": s.job.Namespace, "DC": s.node.Datacenter, "REGION": s.node.Region,
		"ALLOC_DIR": s.dir.Shared(), "TASK_DIR": filepath.Join(dir, "local"),
		"SECRETS_DIR":  filepath.Join(dir, "secrets"),
		"MEMORY_LIMIT": strconv.Itoa(r.MemoryMB),
	}
	if r.CPU > 0 {
		v["CPU_LIMIT"] = strconv.Itoa(r.CPU)
	}
	if r.MemoryMaxMB > 0 {
		v["MEMORY_MAX_LIMIT"] = strconv.Itoa(r.MemoryMaxMB)
	}
	if s.cores != "" {
		v["CPU_CORES"] = s.cores
	}
	env := make(map[string]string, 2*len(v))
	for name, value := range v {
		env["NOMAD_"+name] = value
	}
	for _, name := range []string{"ALLOC_ID", "TASK_NAME", "GROUP_NAME", "JOB_ID"} {
		env["TACHO_"+name] = v[name]
	}
	names := s.node.Names()
	for key, value := range s.task.Meta {
		value, name := node.Interpolate(value, names, env), metaName(key)
		env["NOMAD_META_"+name], env["NOMAD_META_"+strings.ToUpper(name)] = value, value
	}
	maps.Copy(env, s.portVariables())
	env["TMPDIR"] = filepath.Join(dir, "tmp")
	return env
}

var notInMetaName = regexp.MustCompile(`[^A-Za-z0-9_.]`)

// metaName is a meta key in the name of a variable, as Nomad has it: dots stay, and each other byte is an underscore.
func metaName(key string) string {
	return notInMetaName.ReplaceAllStringFunc(key, func(s string) string { return strings.Repeat("_", len(s)) })
}

// portVariables returns the variables for the ports of the group.
func (s *start) portVariables() map[string]string {
	env := make(map[string]string)
	ip := s.node.Attributes["unique.network.ip-address"]
	for _, p := range s.group.Ports {
		host := s.ports[p.Label]
		port := host
		if p.To > 0 {
			port = p.To
		}
		values := map[string]string{
			"PORT": strconv.Itoa(port), "ALLOC_PORT": strconv.Itoa(port), "HOST_PORT": strconv.Itoa(host),
			"IP": ip, "HOST_IP": ip,
			"ADDR": net.JoinHostPort(ip, strconv.Itoa(host)), "HOST_ADDR": net.JoinHostPort(ip, strconv.Itoa(host)),
		}
		for _, label := range slices.Compact([]string{p.Label, job.Identifier(p.Label)}) {
			for kind, value := range values {
				env["NOMAD_"+kind+"_"+label] = value
			}
		}
	}
	return env
}

// scope returns what expressions of the job file may refer to at this start.
func (s *start) scope(env map[string]string) map[string]cty.Value {
	variables := map[string]cty.Value{"attr": cty.EmptyObjectVal, "meta": cty.EmptyObjectVal}
	names := s.node.Names()
	for driver := range s.node.Drivers { // a name is a value or an object in expressions, and jobs ask for the former
		maps.DeleteFunc(names, func(name, _ string) bool { return strings.HasPrefix(name, "attr.driver."+driver+".") })
	}
	maps.Copy(variables, tree(names).AsValueMap())
	values := make(map[string]cty.Value, len(env))
	for name, value := range env {
		values[name] = cty.StringVal(value)
		if job.IsVariable(name) {
			variables[name] = values[name]
		}
	}
	variables["env"] = cty.ObjectVal(values)
	return variables
}

// tree makes objects within objects of dotted names. A name that is both a value and the beginning of other names is
// the latter.
func tree(names map[string]string) cty.Value {
	values, inner := make(map[string]cty.Value), make(map[string]map[string]string)
	for name, value := range names {
		first, rest, dotted := strings.Cut(name, ".")
		if !dotted {
			values[first] = cty.StringVal(value)
			continue
		}
		if inner[first] == nil {
			inner[first] = make(map[string]string)
		}
		inner[first][rest] = value
	}
	for name, below := range inner {
		values[name] = tree(below)
	}
	return cty.ObjectVal(values)
}

// maxEnvFile bounds a template that is read into the environment, in bytes; the kernel takes less of all of it.
const maxEnvFile = 1 << 20

// render writes a task's templates. Those that are environment files add to env.
func (s *start) render(env map[string]string, owner *datadir.Owner) error {
	for _, t := range s.task.Templates {
		dir, path, pathErr := s.target(t, env)
		text, err := expand(t, env)
		mode, modeErr := strconv.ParseUint(t.Permissions, 8, 32)
		if err = errors.Join(pathErr, modeErr, err); err == nil {
			err = datadir.WriteFile(dir, path, text, fs.FileMode(mode), owner)
		}
		if err != nil {
			return templateFault(t, err)
		}
	}
	return nil
}

// checkTemplates expands a task's templates and writes nothing.
func (s *start) checkTemplates(ctx context.Context, env map[string]string) error {
	var errs []error
	files := make(map[string]bool)
	for _, t := range s.task.Templates {
		if err := ctx.Err(); err != nil {
			return err
		}
		dir, path, pathErr := s.target(t, env)
		files[filepath.Join(dir, path)] = pathErr == nil
		_, err := expand(t, env)
		for _, err := range []error{pathErr, err} {
			if err != nil {
				errs = append(errs, templateFault(t, err))
			}
		}
	}
	for _, t := range s.task.Templates {
		dir, path, err := s.target(t, env)
		for above := filepath.Dir(path); err == nil && above != "."; above = filepath.Dir(above) {
			if files[filepath.Join(dir, above)] {
				errs = append(errs, templateFault(t, fmt.Errorf("another template makes a file of %s", above)))
			}
		}
	}
	return job.JoinMistakes(errs...)
}

// maxName is the longest name of a file in bytes, readdir(3).
const maxName = 255

// target returns the file of a template, as a path within the task's directory or the one that all tasks see.
func (s *start) target(t *job.Template, env map[string]string) (dir, path string, err error) {
	full := node.Interpolate(t.Destination, env, s.node.Names())
	task, shared := s.dir.Task(s.task.Name), s.dir.Shared()
	if !filepath.IsAbs(full) || strings.HasPrefix(full, "/local/") || strings.HasPrefix(full, "/secrets/") {
		full = task + "/" + full
	}
	for dir, folders := range map[string][]string{task: {"local", "secrets", "tmp"}, shared: {"data", "logs", "tmp"}} {
		path, err := filepath.Rel(dir, full)
		if err != nil || !filepath.IsLocal(path) {
			continue
		}
		names := strings.Split(path, "/")
		switch {
		case path == ".", strings.HasSuffix(full, "/"), len(names) == 1 && slices.Contains(folders, path):
			return "", "", fmt.Errorf("destination %q is a directory; append the name of a file", t.Destination)
		case dir == shared && names[0] == "logs":
			return "", "", fmt.Errorf("destination %q is reserved for the log files of tasks", t.Destination)
		case strings.Contains(path, "\x00"), slices.ContainsFunc(names, func(s string) bool { return len(s) > maxName }):
			return "", "", fmt.Errorf("destination %q cannot be the name of a file", t.Destination)
		}
		return dir, path, nil
	}
	const outside = "destination %q is not within the task's directory or ${NOMAD_ALLOC_DIR}"
	return "", "", fmt.Errorf(outside, t.Destination)
}

// expand returns the text of a template. An environment file adds to env.
func expand(t *job.Template, env map[string]string) ([]byte, error) {
	text, err := t.Expand(env)
	if err == nil && t.Env {
		err = readEnv(text, env)
	}
	return text, err
}

func templateFault(t *job.Template, err error) error {
	return fmt.Errorf("%s:%d: template %s: %w", t.Range.Filename, t.Range.Start.Line, t.Destination, err)
}

// readEnv adds the variables of NAME=value lines, as Nomad reads them.
func readEnv(text []byte, env map[string]string) error {
	if len(text) > maxEnvFile {
		return fmt.Errorf("%d bytes; a file of variables can have %d", len(text), maxEnvFile)
	}
	variables, err := envparse.Parse(bytes.NewReader(text))
	if refused, ok := errors.AsType[*envparse.ParseError](err); ok {
		return fmt.Errorf("line %d: %w", refused.Line, refused.Err)
	}
	maps.Copy(env, variables)
	return err
}
