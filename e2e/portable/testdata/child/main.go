// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Command child is what the tests run, on every system.
//
//	child exit CODE | burn SECONDS MIB | beat FILE | tree FILE | orphan FILE
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	switch what, arg := os.Args[1], os.Args[2]; what {
	case "exit":
		os.Exit(number(arg))
	case "burn":
		memory := make([]byte, number(os.Args[3])<<20)
		for end := time.Now().Add(time.Duration(number(arg)) * time.Second); time.Now().Before(end); {
			for i := range memory {
				memory[i]++
			}
		}
	case "beat": // grows a file for as long as it lives
		file, err := os.OpenFile(arg, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		for err == nil {
			_, err = file.WriteString(".")
			time.Sleep(20 * time.Millisecond)
		}
	case "tree", "orphan":
		signal.Ignore(syscall.SIGTERM) // inherited
		below := exec.Command(os.Args[0], "beat", arg)
		if err := below.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(9)
		}
		for what == "tree" || !exists(arg) {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}
