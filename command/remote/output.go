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

// answerFlags are the flags with which a command prints the agent's answer itself instead of text for people.
type answerFlags struct {
	json     bool
	template string
}

// answerFlag adds --json and --template.
func answerFlag(cmd *cobra.Command) *answerFlags {
	o := &answerFlags{}
	cmd.Flags().BoolVar(&o.json, "json", false, "print the agent's JSON")
	cmd.Flags().StringVarP(&o.template, "template", "t", "", "print the agent's JSON through this Go `TEMPLATE` (text/template)")
	return o
}

// asked reports whether either flag was given.
func (o *answerFlags) asked() bool { return o.json || o.template != "" }

// check refuses what cannot be printed, before anything is asked or done.
func (o *answerFlags) check() error {
	if o.json && o.template != "" {
		return cli.Usagef("--json and --template: only one of them can be printed")
	}
	_, err := o.parse()
	return err
}

func (o *answerFlags) parse() (*template.Template, error) {
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

// print prints an answer as the flags say: JSON indented, or through the template.
func (o *answerFlags) print(out io.Writer, answer json.RawMessage) error {
	if o.template != "" {
		return o.execute(out, answer)
	}
	var text bytes.Buffer
	if err := json.Indent(&text, bytes.TrimSpace(answer), "", "  "); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	text.WriteByte('\n')
	_, err := out.Write(text.Bytes())
	return err
}

// printLine prints one answer of many: JSON on a line of its own, or what the template makes of it.
func (o *answerFlags) printLine(out io.Writer, answer json.RawMessage) error {
	if o.template != "" {
		return o.execute(out, answer)
	}
	var text bytes.Buffer
	if err := json.Compact(&text, answer); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	text.WriteByte('\n')
	_, err := out.Write(text.Bytes())
	return err
}

// execute runs the template over the answer; its keys are those of the JSON. Large numbers stay as they are written.
func (o *answerFlags) execute(out io.Writer, answer json.RawMessage) error {
	parsed, err := o.parse()
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("read answer: %w", err)
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
