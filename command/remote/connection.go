// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/agent/client"
	"github.com/tachograph/tacho/command/cli"
)

const (
	defaultAddress = "http://127.0.0.1:4656"
	socketName     = "tacho.sock"
)

// connectionWord is what the help says about which agent is asked.
const connectionWord = `The agent is asked over the unix socket in its data folder where there is one, then over that of a development
agent of yours, else at ` + defaultAddress + `. --addr names another: unix:/path, http://host:port or https://host:port.

Over TCP the agent tells numbers, names and states; for more it asks for its token, from --token-file or TACHO_TOKEN.`

// connection are the flags that say which agent is asked, and as whom.
type connection struct {
	addr, dataDir, tokenFile, caFile string
}

// connectionFlags adds the flags and what the help says about them.
func connectionFlags(cmd *cobra.Command) *connection {
	c := &connection{}
	flags := cmd.Flags()
	flags.StringVar(&c.addr, "addr", "", "ask the agent at this `ADDRESS`")
	flags.StringVar(&c.dataDir, "data-dir", client.DefaultDataDir, "ask the agent with this data `FOLDER`")
	flags.StringVar(&c.tokenFile, "token-file", "", "send the token in this `FILE`")
	flags.StringVar(&c.caFile, "ca-file", "", "trust the certificates in this `FILE` for https")
	_ = cmd.MarkFlagDirname("data-dir") // these fail only for flags that do not exist
	_ = cmd.MarkFlagFilename("token-file")
	_ = cmd.MarkFlagFilename("ca-file")
	if cmd.Long != "" {
		cmd.Long += "\n\n"
	}
	cmd.Long += connectionWord
	return c
}

// open returns a client for the agent that the flags mean. It has not connected yet.
func (c *connection) open(ctx context.Context) (*client.Client, error) {
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	agent, err := client.New(client.Options{Address: c.address(ctx), Token: token, CAFile: c.caFile})
	if err != nil {
		return nil, cli.Usagef("%w", err)
	}
	return agent, nil
}

func (c *connection) token() (string, error) {
	if c.tokenFile == "" {
		return strings.TrimSpace(os.Getenv("TACHO_TOKEN")), nil
	}
	text, err := os.ReadFile(c.tokenFile)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("read token: %s is empty", c.tokenFile)
	}
	return token, nil
}

// address finds the agent.
func (c *connection) address(ctx context.Context) string {
	if c.addr != "" {
		return c.addr
	}
	socket := filepath.Join(c.dataDir, socketName)
	if _, err := os.Stat(socket); err == nil || c.dataDir != client.DefaultDataDir {
		return "unix:" + absolute(socket)
	}
	if socket := devSocket(ctx); socket != "" {
		return "unix:" + socket
	}
	return defaultAddress
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// devSocket finds the socket of the youngest development agent of this user that listens; empty where there is none.
func devSocket(ctx context.Context) string {
	for _, folder := range client.DevDataDirs() {
		socket := filepath.Join(folder, socketName)
		if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", socket); err == nil {
			_ = conn.Close() // nothing was said
			return socket
		}
	}
	return ""
}

// explain adds what to do to errors of an agent that does not answer.
func explain(err error) error {
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return fmt.Errorf("%w (--ca-file names the certificate to trust)", err)
	}
	switch {
	case err == nil || !errors.Is(err, client.ErrUnreachable):
		return err
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w (its socket is for its own user and root only)", err)
	}
	return fmt.Errorf("%w (tacho agent --dev starts one; --addr names another)", err)
}

// withAgent is the RunE of a command that asks an agent.
func withAgent(c *connection, run func(cmd *cobra.Command, agent *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		agent, err := c.open(cmd.Context())
		if err != nil {
			return err
		}
		defer agent.Close()
		return explain(run(cmd, agent, args))
	}
}

// completionPatience is how long a shell waits for ids.
const completionPatience = 2 * time.Second

// completeFromAgent completes the first argument with what an agent knows, each id with a word of what it is.
func completeFromAgent(c *connection, list func(ctx context.Context, agent *client.Client) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		// cobra completes without running the root's PersistentPreRunE.
		if err := cli.ApplyEnvironment(cmd, nil); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionPatience)
		defer cancel()
		agent, err := c.open(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer agent.Close()
		all, err := list(ctx, agent)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		fitting := slices.DeleteFunc(all, func(c cobra.Completion) bool { return !strings.HasPrefix(c, typed) })
		return fitting, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeJobs completes a job's id.
func completeJobs(c *connection) cobra.CompletionFunc {
	return completeFromAgent(c, func(ctx context.Context, agent *client.Client) ([]cobra.Completion, error) {
		jobs, err := agent.Jobs(ctx, "")
		if err != nil {
			return nil, err
		}
		var ids []cobra.Completion
		for _, j := range jobs.Value {
			ids = append(ids, cobra.CompletionWithDesc(j.ID, j.Type+", "+j.Status))
		}
		return ids, nil
	})
}

// completeAllocations completes an allocation's id, and behind it the name of a task.
func completeAllocations(c *connection) cobra.CompletionFunc {
	ids := completeFromAgent(c, func(ctx context.Context, agent *client.Client) ([]cobra.Completion, error) {
		allocations, err := agent.Allocations(ctx, "")
		if err != nil {
			return nil, err
		}
		var ids []cobra.Completion
		for i := range allocations.Value {
			a := &allocations.Value[i]
			ids = append(ids, cobra.CompletionWithDesc(shortID(a.ID), a.Name+", "+a.ClientStatus))
		}
		return ids, nil
	})
	return ids
}

// shortID is as much of an id as people type.
func shortID(id string) string {
	const enough = 8
	if len(id) > enough {
		return id[:enough]
	}
	return id
}
