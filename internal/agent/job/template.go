// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	texttemplate "text/template"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// maxRendered bounds what one template writes, in bytes.
const maxRendered = 8 << 20

// Expand executes a template with functions that need nothing but this machine.
func (t *Template) Expand(env map[string]string) ([]byte, error) {
	parsed, err := texttemplate.New(t.Destination).Delims(t.LeftDelim, t.RightDelim).Option("missingkey=error").
		Funcs(templateFunctions(env)).Parse(t.Data)
	if err != nil {
		return nil, explainFunction(err)
	}
	var w boundedBuffer
	if err := parsed.Execute(&w, nil); err != nil {
		return nil, err
	}
	return w.Bytes(), nil
}

// boundedBuffer rejects the output of a template that runs wild.
type boundedBuffer struct{ bytes.Buffer }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxRendered {
		return 0, fmt.Errorf("the template writes more than %d bytes", maxRendered)
	}
	return b.Buffer.Write(p)
}

// templateFunctions are those of Nomad's templates that need nothing but the task's environment.
func templateFunctions(env map[string]string) texttemplate.FuncMap {
	return texttemplate.FuncMap{
		"env": func(name string) string { return env[name] },
		"envOrDefault": func(name, otherwise string) string {
			if value := env[name]; value != "" {
				return value
			}
			return otherwise
		},
		"toLower":    strings.ToLower,
		"toUpper":    strings.ToUpper,
		"trimSpace":  strings.TrimSpace,
		"split":      func(separator, text string) []string { return strings.Split(text, separator) },
		"join":       func(separator string, parts []string) string { return strings.Join(parts, separator) },
		"contains":   func(part, text string) bool { return strings.Contains(text, part) },
		"replaceAll": func(from, to, text string) string { return strings.ReplaceAll(text, from, to) },
	}
}

// notDefined matches what text/template says of an unknown function.
var notDefined = regexp.MustCompile(`function "(\w+)" not defined`)

// clusterFunctions are those of Nomad's templates that ask Consul, Vault or Nomad, or read files of the client.
//
//nolint:gochecknoglobals // a constant list
var clusterFunctions = []string{
	"caLeaf", "caRoots", "connect", "datacenters", "exportedServices", "file", "key", "keyExists", "keyOrDefault", "ls",
	"node", "nodes", "nomadService", "nomadServices", "nomadVar", "nomadVarExists", "nomadVarList", "nomadVarListSafe",
	"peerings", "pkiCert", "plugin", "safeLs", "safeTree", "secret", "secrets", "service", "services", "tree",
	"writeToFile",
}

// explainFunction says of a function that only a cluster has that it is not supported here.
func explainFunction(err error) error {
	found := notDefined.FindStringSubmatch(err.Error())
	if found == nil || !slices.Contains(clusterFunctions, found[1]) {
		return err
	}
	explained := fmt.Sprintf("function %q is not supported by the agent; run this job on a Nomad cluster", found[1])
	return errors.New(strings.Replace(err.Error(), found[0], explained, 1))
}

func (d *decoder) template(b *hclsyntax.Block, t *Task) {
	x := &Template{
		Permissions: "0644", LeftDelim: "{{", RightDelim: "}}", ChangeMode: "restart", Range: b.TypeRange,
	}
	d.body("template", b.Body, fields{
		attributes: map[string]func(*hclsyntax.Attribute){
			"data": d.lenientStr(&x.Data), "destination": d.lenientStr(&x.Destination),
			"perms": d.str(&x.Permissions), "left_delimiter": d.str(&x.LeftDelim), "right_delimiter": d.str(&x.RightDelim),
			"change_mode": d.word(&x.ChangeMode, "noop", "restart", "signal"), "change_signal": d.str(&x.ChangeSignal),
			"env": d.flag(&x.Env),
		},
		elsewhere: []string{
			"change_script", "error_on_missing_key", "gid", "once", "source", "splay", "uid", "vault_grace", "wait",
		},
	})
	d.need(b.Body.Attributes["data"] != nil || d.diags.HasErrors(), b.TypeRange, "template", "data")
	d.need(x.Destination != "" || d.diags.HasErrors(), b.TypeRange, "template", "destination")
	if mode, err := strconv.ParseUint(x.Permissions, 8, 32); err != nil || mode > 0o777 {
		d.errorf(b.TypeRange, "Invalid value", "perms must be an octal mode such as \"0644\"")
	}
	if _, err := x.Path(); x.Destination != "" && err != nil {
		d.errorf(b.TypeRange, "Invalid value", "%s", err)
	}
	t.Templates = append(t.Templates, x)
}

// Path is the path of the rendered file within the task's directory.
func (t *Template) Path() (string, error) {
	path := strings.NewReplacer("${NOMAD_TASK_DIR}", "local", "${NOMAD_SECRETS_DIR}", "secrets").Replace(t.Destination)
	if !filepath.IsLocal(path) || strings.HasPrefix(path, "${NOMAD_ALLOC_DIR}") {
		return "", fmt.Errorf("destination %q is not within the task's directory", t.Destination)
	}
	return filepath.Clean(path), nil
}
