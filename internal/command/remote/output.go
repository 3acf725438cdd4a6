// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
)

// outputFlags are the flags that print the agent's JSON instead of text.
type outputFlags struct {
	json     bool
	template string
	// oneLine prints JSON without line breaks: it is one of many responses.
	oneLine bool
	parsed  *template.Template
}

// addOutputFlags adds --json and --template. Invalid ones are rejected before the command runs.
func addOutputFlags(cmd *cobra.Command) *outputFlags {
	o := &outputFlags{}
	cmd.Flags().BoolVar(&o.json, "json", false, "print the agent's JSON")
	cmd.Flags().StringVarP(&o.template, "template", "t", "",
		"print the agent's JSON through this Go `TEMPLATE` (text/template)")
	cmd.PreRunE = func(*cobra.Command, []string) error { return o.check() }
	return o
}

// set reports whether either flag was given.
func (o *outputFlags) set() bool { return o.json || o.template != "" }

func (o *outputFlags) check() (err error) {
	if o.json && o.template != "" {
		return cli.Usagef("--json and --template are mutually exclusive")
	}
	functions := template.FuncMap{"json": toJSON}
	o.parsed, err = template.New("template").Option("missingkey=error").Funcs(functions).Parse(o.template)
	if err != nil {
		return cli.Usagef("--template: %s", strings.TrimPrefix(err.Error(), "template: "))
	}
	return nil
}

func toJSON(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

// show prints the answer of an agent: as the flags say, or as text. It returns err, with which the answer came.
func show[T any](c *call, o *outputFlags, answer client.Answer[T], err error, write func(*cli.Sheet, *T)) error {
	switch {
	case err != nil:
		return err
	case o.set():
		return o.print(c.out, answer.JSON)
	}
	text := cli.Sheet{Palette: c.palette}
	write(&text, &answer.Value)
	_, err = io.WriteString(c.out, text.String())
	return err
}

// showList is show for a list, which says what to do if it is empty.
func showList[T any](c *call, o *outputFlags, answer client.Answer[[]T], err error, empty string,
	table func([]T) *cli.Table,
) error {
	if err == nil && len(answer.Value) == 0 && !o.set() {
		cli.PrintError(c.cmd.ErrOrStderr(), errors.New(empty))
		return nil
	}
	return show(c, o, answer, err, func(b *cli.Sheet, all *[]T) { b.Table(table(*all)) })
}

// print prints a response as JSON, or through the template.
func (o *outputFlags) print(out io.Writer, answer json.RawMessage) (err error) {
	var text bytes.Buffer
	switch {
	case o.template != "":
		err = o.execute(&text, answer)
	case o.oneLine:
		err = json.Compact(&text, answer)
	default:
		err = json.Indent(&text, bytes.TrimSpace(answer), "", "  ")
	}
	if err != nil {
		return err
	}
	if !bytes.HasSuffix(text.Bytes(), []byte("\n")) {
		text.WriteByte('\n')
	}
	_, err = out.Write(text.Bytes())
	return err
}

// execute runs the template over a response; its keys are those of the JSON. Large numbers keep all digits.
func (o *outputFlags) execute(text io.Writer, answer json.RawMessage) error {
	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return err
	}
	if err := o.parsed.Execute(text, value); err != nil {
		return fmt.Errorf("--%w", err)
	}
	return nil
}

// parsed returns the value of a flag's function: it sets value to the text as the agent parses it.
func parsed(value *string, parse func(text string) (string, error)) func(string) error {
	return func(text string) (err error) {
		*value, err = parse(text)
		return err
	}
}

// parseMoment checks a time. Days, which the agent does not know, become hours.
func parseMoment(text string) (string, error) {
	if _, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return text, nil
	}
	const latest = 1 << 33 // seconds: the agent's bound
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 && seconds < latest {
		return text, nil
	}
	before, err := cli.ParseDuration(text)
	if err != nil {
		return "", errors.New("must be a time: RFC 3339, seconds since 1970, or a duration before now such as 5m")
	}
	return before.String(), nil
}

// parseStep checks a duration.
func parseStep(text string) (string, error) {
	step, err := cli.ParseDuration(text)
	return step.String(), err
}
