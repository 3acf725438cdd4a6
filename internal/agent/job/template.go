// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"bytes"
	"errors"
	"fmt"
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
	missing := "missingkey=zero"
	if t.ErrMissingKey {
		missing = "missingkey=error"
	}
	parsed, err := texttemplate.New("data").Delims(t.LeftDelim, t.RightDelim).Option(missing).
		Funcs(templateFunctions(env)).Parse(t.Data)
	if err != nil {
		return nil, explain(err)
	}
	var w boundedBuffer
	if err := parsed.Execute(&w, nil); err != nil {
		return nil, explain(err)
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

var (
	// templatePlace matches what text/template says first: its own name of the template, and where in it.
	templatePlace = regexp.MustCompile(`^template: data:(\d+)(?::\d+)?: (?:executing "data" at )?`)
	// notDefined matches what text/template says of an unknown function.
	notDefined = regexp.MustCompile(`function "(\w+)" not defined`)
)

// otherFunctions are those of Nomad's templates that ask Consul, Vault or Nomad, take what these return, read files of
// the client or describe its addresses, that Nomad disables by default, that keep values, and that print them for
// debugging. Those of Sprig are not supported either.
//
//nolint:gochecknoglobals // a constant list
var otherFunctions = []string{
	"byKey", "byMeta", "byPort", "byTag", "caLeaf", "caRoots", "connect", "datacenters", "executeTemplate", "explode",
	"exportedServices", "file", "importedServices", "key", "keyExists", "keyOrDefault", "ls", "node", "nodes",
	"nomadService", "nomadServices", "nomadVar", "nomadVarExists", "nomadVarList", "nomadVarListSafe", "partitions",
	"peerings", "pkiCert", "plugin", "safeLs", "safeTree", "scratch", "secret", "secrets", "service", "services",
	"sockaddr", "spew_dump", "spew_printf", "spew_sdump", "spew_sprintf", "tree", "writeToFile",
}

// explain says on which line a template is wrong, and of a function that only Nomad has that it is not supported here.
func explain(err error) error {
	text := templatePlace.ReplaceAllString(err.Error(), "line $1: ")
	found := notDefined.FindStringSubmatch(text)
	if found != nil && (slices.Contains(otherFunctions, found[1]) || strings.HasPrefix(found[1], "sprig_")) {
		const explained = "function %q is not supported by the agent; run this job on a Nomad cluster"
		text = strings.Replace(text, found[0], fmt.Sprintf(explained, found[1]), 1)
	}
	return errors.New(text)
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
			"env": d.flag(&x.Env), "error_on_missing_key": d.flag(&x.ErrMissingKey),
		},
		elsewhere: []string{
			"change_script", "gid", "once", "source", "splay", "uid", "vault_grace", "wait",
		},
	})
	d.need(b.Body.Attributes["data"] != nil || d.diags.HasErrors(), b.TypeRange, "template", "data")
	d.need(x.Destination != "" || d.diags.HasErrors(), b.TypeRange, "template", "destination")
	if mode, err := strconv.ParseUint(x.Permissions, 8, 32); err != nil || mode > 0o777 {
		d.errorf(b.TypeRange, "Invalid value", "perms must be an octal mode such as \"0644\"")
	}
	t.Templates = append(t.Templates, x)
}
