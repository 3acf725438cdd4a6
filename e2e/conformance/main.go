// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

// Conformance drives any task-driver plugin through its host's side and prints what it does and what it does not:
//
//	go run ./e2e/conformance -plugin PATH [-config FILE] [-run REGEXP]
//
// It needs a driver whose tasks have a command and args and see the host's /bin/sh.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"text/tabwriter"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"

	"github.com/tachograph/tacho/e2e/conformance/host"
	"github.com/tachograph/tacho/e2e/conformance/suite"
	"github.com/tachograph/tacho/internal/agent/node"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed, err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

// run runs the cases and returns how many failed.
func run(ctx context.Context, args []string, out io.Writer) (failed int, err error) {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	path := flags.String("plugin", "", "the plugin executable")
	configFile := flags.String("config", "", "a file with the inside of the plugin's config { … } block")
	pattern := flags.String("run", "", "only cases that match this regular expression")
	logLevel := flags.String("log", "off", "show the plugin's log from this level on")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	selected, err := regexp.Compile(*pattern)
	if err != nil {
		return 0, err
	}
	if *path == "" {
		return 0, errors.New("no plugin: use -plugin PATH")
	}
	absolute, err := filepath.Abs(*path)
	if err != nil {
		return 0, err
	}
	_, resources := node.Describe(os.TempDir())
	subject := &suite.Plugin{Topology: host.Topology(resources.Cores, resources.CoreMHz), Options: host.Options{
		Path:   absolute,
		Logger: hclog.New(&hclog.LoggerOptions{Name: filepath.Base(absolute), Level: hclog.LevelFromString(*logLevel), Output: os.Stderr}),
	}}
	if subject.Config, err = encodeConfig(ctx, subject.Options, *configFile); err != nil {
		return 0, err
	}
	var cases []suite.Case
	for _, c := range suite.Cases() {
		if selected.MatchString(c.Name) {
			cases = append(cases, c)
		}
	}
	return table(ctx, subject, cases, out)
}

// table runs cases and prints a row for each as it ends.
func table(ctx context.Context, subject suite.Subject, cases []suite.Case, out io.Writer) (failed int, err error) {
	counts := make(map[suite.Outcome]int)
	w := tabwriter.NewWriter(out, 46, 0, 2, ' ', 0)
	err = suite.Run(ctx, subject, cases, func(r suite.Result) {
		counts[r.Outcome]++
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.Case, r.Outcome, r.Took.Round(time.Millisecond))
		if r.Detail != "" {
			fmt.Fprintf(w, "    %s\n", r.Detail)
		}
		err = errors.Join(err, w.Flush())
	})
	fmt.Fprintf(w, "\n%d passed, %d failed, %d skipped\n", counts[suite.Passed], counts[suite.Failed], counts[suite.Skipped])
	return counts[suite.Failed], errors.Join(err, w.Flush())
}

// encodeConfig asks the plugin for its schema, as a host does first, and encodes the operator's file by it.
func encodeConfig(ctx context.Context, o host.Options, file string) ([]byte, error) {
	process, err := host.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	defer process.Close()
	spec, err := process.ConfigSchema(ctx)
	if err != nil || spec == nil {
		return nil, err
	}
	body := hcl.EmptyBody()
	if file != "" {
		parsed, diags := hclparse.NewParser().ParseHCLFile(file)
		if diags.HasErrors() {
			return nil, diags
		}
		body = parsed.Body
	}
	return host.Encode(spec, body, nil)
}
