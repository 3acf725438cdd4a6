// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/term"

	"github.com/tachograph/tacho/internal/command/cli"
)

// input is the stdin of a command.
type input struct {
	file *os.File
	// start is where each run of a series begins to read; negative for what has no place, such as a device.
	start int64
}

// openInput opens the file of --input, or returns our stdin. Each run of a series must read the same: what can be read
// only once is rejected. Of a terminal, a series would wait for keys at each run: its commands read nothing instead.
func (o *runOptions) openInput(commands int) (in input, err error) {
	in = input{file: os.Stdin, start: -1}
	info, err := os.Stdin.Stat()
	if o.input != "" {
		if o.input, err = cli.Absolute(o.input); err != nil { // the executor's working directory is another
			return in, fmt.Errorf("--input: %w", err)
		}
		if info, err = os.Stat(o.input); err == nil && info.IsDir() {
			err = fmt.Errorf("%s is a directory", o.input)
		}
	}
	if err != nil {
		return in, cli.Usagef("--input: %w", err)
	}
	series := o.runs > 1 || o.warmUp > 0 || commands > 1
	terminal := o.input == "" && term.IsTerminal(int(os.Stdin.Fd()))
	switch mode := info.Mode(); {
	case series && terminal:
		in.file, err = os.Open(os.DevNull)
	case series && !mode.IsRegular() && mode&fs.ModeCharDevice == 0:
		return in, cli.Usagef("%s: stdin can be read only once, by the first run; "+
			"use --input FILE, or </dev/null if the command reads nothing", cli.AndList(o.given("runs", "warmup", "parameter")))
	case o.input != "" && !o.detach:
		in.file, err = os.Open(o.input)
	}
	if err == nil && series && info.Mode().IsRegular() {
		// What was read before, by the shell's read for example, is not the command's.
		in.start, err = in.file.Seek(0, io.SeekCurrent)
	}
	if err != nil {
		return in, fmt.Errorf("stdin: %w", err)
	}
	return in, nil
}

// rewind lets the next run read from the start.
func (in input) rewind() error {
	if in.start < 0 {
		return nil
	}
	if _, err := in.file.Seek(in.start, io.SeekStart); err != nil {
		return fmt.Errorf("rewind stdin: %w", err)
	}
	return nil
}
