// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

func (d *decoder) template(b *hclsyntax.Block, t *Task) {
	x := &Template{
		Permissions: "0644", LeftDelim: "{{", RightDelim: "}}", ChangeMode: "restart", Range: b.TypeRange,
	}
	hasData := false
	d.body("template", b.Body, fields{
		attributes: map[string]func(*hclsyntax.Attribute){
			"data": func(a *hclsyntax.Attribute) {
				hasData = true
				if v, ok := d.lenient(a.Expr); ok {
					x.Data = v
				}
			},
			"destination": func(a *hclsyntax.Attribute) {
				if v, ok := d.lenient(a.Expr); ok {
					x.Destination = v
				}
			},
			"perms": d.str(&x.Permissions), "left_delimiter": d.str(&x.LeftDelim), "right_delimiter": d.str(&x.RightDelim),
			"change_mode": d.word(&x.ChangeMode, "noop", "restart", "signal"), "change_signal": d.str(&x.ChangeSignal),
			"env": d.flag(&x.Env),
		},
		elsewhere: []string{
			"change_script", "error_on_missing_key", "gid", "once", "source", "splay", "uid", "vault_grace", "wait",
		},
	})
	d.need(hasData || d.diags.HasErrors(), b.TypeRange, "template", "data")
	d.need(x.Destination != "" || d.diags.HasErrors(), b.TypeRange, "template", "destination")
	if mode, err := strconv.ParseUint(x.Permissions, 8, 32); err != nil || mode > 0o777 {
		d.errorf(b.TypeRange, "Invalid value", "perms must be an octal mode such as \"0644\"")
	}
	if x.Destination != "" && !filepath.IsLocal(x.Destination) && !fromFolder.MatchString(x.Destination) {
		d.errorf(b.TypeRange, "Invalid value", "destination %q is not within the task's directory", x.Destination)
	}
	t.Templates = append(t.Templates, x)
}

// fromFolder are destinations that begin with one of the task's own directories by its variable.
var fromFolder = regexp.MustCompile(`^\$\{NOMAD_(TASK|SECRETS)_DIR\}/`)

// lenient evaluates a text in which variables that only a start knows stand as they are.
func (d *decoder) lenient(expr hclsyntax.Expression) (string, bool) {
	v, diags := expr.Value(withLiterals(d.vars, d.text, expr))
	if d.add(diags); diags.HasErrors() {
		return "", false
	}
	if d.consequence(v) {
		return "", false
	}
	v, err := convert.Convert(v, cty.String)
	if err != nil || v.IsNull() || !v.IsKnown() {
		d.errorf(expr.Range(), "Invalid value", "a string is required")
		return "", false
	}
	return v.AsString(), true
}
