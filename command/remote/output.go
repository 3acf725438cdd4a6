// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/command/cli"
)

// outputFlags are the flags that print the agent's JSON instead of text.
type outputFlags struct {
	json     bool
	template string
}

// addOutputFlags adds --json and --template.
func addOutputFlags(cmd *cobra.Command) *outputFlags {
	o := &outputFlags{}
	cmd.Flags().BoolVar(&o.json, "json", false, "print the agent's JSON")
	cmd.Flags().StringVarP(&o.template, "template", "t", "", "print the agent's JSON through this Go `TEMPLATE` (text/template)")
	return o
}

// set reports whether either flag was given.
func (o *outputFlags) set() bool { return o.json || o.template != "" }

// check rejects invalid flags before any request.
func (o *outputFlags) check() error {
	if o.json && o.template != "" {
		return cli.Usagef("--json and --template are mutually exclusive")
	}
	_, err := o.parse()
	return err
}

func (o *outputFlags) parse() (*template.Template, error) {
	parsed, err := template.New("template").Option("missingkey=error").Funcs(template.FuncMap{"json": toJSON}).Parse(o.template)
	if err != nil {
		return nil, cli.Usagef("--template: %s", strings.TrimPrefix(err.Error(), "template: "))
	}
	return parsed, nil
}

func toJSON(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

// print prints a response: indented JSON, or through the template.
func (o *outputFlags) print(out io.Writer, answer json.RawMessage) error {
	if o.template != "" {
		return o.execute(out, answer)
	}
	var text bytes.Buffer
	if err := json.Indent(&text, bytes.TrimSpace(answer), "", "  "); err != nil {
		return fmt.Errorf("decode response: %w", err)
	}
	text.WriteByte('\n')
	_, err := out.Write(text.Bytes())
	return err
}

// printLine prints one of many responses: JSON on one line, or through the template.
func (o *outputFlags) printLine(out io.Writer, answer json.RawMessage) error {
	if o.template != "" {
		return o.execute(out, answer)
	}
	var text bytes.Buffer
	if err := json.Compact(&text, answer); err != nil {
		return fmt.Errorf("decode response: %w", err)
	}
	text.WriteByte('\n')
	_, err := out.Write(text.Bytes())
	return err
}

// execute runs the template over a response; its keys are those of the JSON. Large numbers keep all digits.
func (o *outputFlags) execute(out io.Writer, answer json.RawMessage) error {
	parsed, err := o.parse()
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("decode response: %w", err)
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, value); err != nil {
		return fmt.Errorf("--%w", err)
	}
	if !bytes.HasSuffix(text.Bytes(), []byte("\n")) {
		text.WriteByte('\n')
	}
	_, err = out.Write(text.Bytes())
	return err
}
