// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package remote has the commands that are clients of an agent: job, alloc, top and events, and advise, which may be.
package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	_ "embed" // of the help
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/regular"
)

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	all := []*cobra.Command{newAlloc(), newEvents(), newJob(), newTop(), newUI()}
	for _, cmd := range all {
		cmd.GroupID = cli.GroupAgent
	}
	return append(all, newAdvise())
}

//go:embed help.txt
var help string

func newUI() *cobra.Command {
	cmd := cli.Described(help, "ui")
	return withAgent(cmd, nil, func(c *call) error {
		link, err := c.SignInLink(c.ctx)
		if err != nil {
			return err
		}
		base := link.URL
		if address := c.Address(); !strings.HasPrefix(address, "unix:") {
			base = strings.TrimSuffix(address, "/")
		}
		if base == "" {
			return errors.New("the agent does not listen on TCP (ports { http = -1 }), so no browser reaches its page")
		}
		_, err = fmt.Fprintln(c.out, base+link.Path)
		return err
	})
}

const (
	defaultPort    = "4656"
	defaultAddress = "http://127.0.0.1:" + defaultPort
)

// connection has the flags for the connection to an agent.
type connection struct {
	addr, dataDir, tokenFile, caFile string
}

// addConnectionFlags adds the flags.
func addConnectionFlags(cmd *cobra.Command) *connection {
	c := &connection{}
	flags := cmd.Flags()
	flags.StringVar(&c.addr, "addr", "", "`ADDRESS` of the agent")
	flags.StringVar(&c.dataDir, "data-dir", datadir.Default, "data `DIR` of the agent")
	flags.StringVar(&c.tokenFile, "token-file", "", "`FILE` with the token")
	flags.StringVar(&c.caFile, "ca-file", "", "`FILE` with certificates to trust for https")
	_ = cmd.MarkFlagDirname("data-dir") // these fail only for flags that do not exist
	_ = cmd.MarkFlagFilename("token-file")
	_ = cmd.MarkFlagFilename("ca-file")
	cli.Group(cmd, "The agent, see tacho help sockets", "addr", "data-dir", "token-file", "ca-file")
	return c
}

// open returns a client for the agent. It does not connect yet.
func (c *connection) open(ctx context.Context) (*client.Client, error) {
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	agent, err := client.New(client.Options{Address: c.address(ctx), Token: token, CAFile: c.caFile})
	if _, invalid := errors.AsType[client.AddressError](err); invalid {
		flag := "--addr " + c.addr
		if c.addr == "" {
			flag = "--data-dir " + c.dataDir
		}
		err = cli.Usagef("%s: %w", flag, err)
	}
	return agent, err
}

func (c *connection) token() (string, error) {
	if c.tokenFile == "" {
		token := strings.TrimSpace(os.Getenv("TACHO_TOKEN"))
		if err := regular.CheckToken(token); err != nil {
			return "", cli.Usagef("TACHO_TOKEN: %w", err)
		}
		return token, nil
	}
	token, err := regular.Token(c.tokenFile)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	return token, nil
}

// address returns the address of the agent.
func (c *connection) address(ctx context.Context) string {
	switch {
	case c.addr == "":
	case strings.HasPrefix(c.addr, "/"), strings.HasPrefix(c.addr, "."):
		return "unix:" + absolute(c.addr)
	case strings.HasPrefix(c.addr, "unix:"), strings.Contains(c.addr, "://"):
		return c.addr
	default:
		return "http://" + withPort(c.addr)
	}
	socket := datadir.Socket(c.dataDir)
	if _, err := os.Stat(socket); err == nil || c.dataDir != datadir.Default {
		return "unix:" + absolute(socket)
	}
	if socket := devSocket(ctx); socket != "" {
		return "unix:" + socket
	}
	return defaultAddress
}

// withPort adds the port of an agent to a host without one: no agent serves the port of http.
func withPort(host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil || strings.Contains(host, "/") {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), defaultPort)
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// devSocket returns the socket of the newest running development agent of this user; empty if there is none.
func devSocket(ctx context.Context) string {
	for _, dir := range datadir.AllDev() {
		socket := datadir.Socket(dir)
		if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", socket); err == nil {
			_ = conn.Close() // no data was sent
			return socket
		}
	}
	return ""
}

// errUntrusted replaces what the agent says to an untrusted caller, which is for clients that speak HTTP.
var errUntrusted = errors.New("not permitted without the agent's token: --token-file or TACHO_TOKEN, " +
	"or run on the agent's machine as its user")

// explain adds a remedy to connection errors.
func explain(err error) error {
	if refused, ok := errors.AsType[*client.StatusError](err); ok && refused.Status == http.StatusForbidden {
		switch {
		case strings.Contains(refused.Text, "unix socket or its token"):
			return errUntrusted
		case refused.Text == "invalid token":
			return fmt.Errorf("%w; it comes from --token-file or TACHO_TOKEN", err)
		}
	}
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return fmt.Errorf("%w (--ca-file adds certificates to trust)", err)
	}
	switch {
	case err == nil || !errors.Is(err, client.ErrUnreachable):
		return err
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w (only the user of the agent and root may connect to its socket)", err)
	}
	return fmt.Errorf("%w (tacho agent --dev starts an agent; --addr chooses another)", err)
}

// call is one call of a command that asks an agent, or of its shell completion, which has neither out nor palette.
type call struct {
	*client.Client

	cmd     *cobra.Command
	ctx     context.Context
	args    []string
	out     io.Writer
	palette cli.Palette
}

// completion lists the values of the argument after those of the call; nil for none.
type completion = func(*call) ([]cobra.Completion, error)

// withAgent gives a command the flags for the connection, and makes it run with a client for the agent.
func withAgent(cmd *cobra.Command, complete completion, run func(*call) error) *cobra.Command {
	c := addConnectionFlags(cmd)
	if complete != nil {
		cmd.ValidArgsFunction = c.complete(complete)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		agent, err := c.open(cmd.Context())
		if err != nil {
			return err
		}
		defer agent.Close()
		out := cmd.OutOrStdout()
		return explain(run(&call{agent, cmd, cmd.Context(), args, out, cli.PaletteFor(cmd, out)}))
	}
	return cmd
}

// untilInterrupted makes a command run until an interrupt, which is not an error.
func untilInterrupted(run func(*call) error) func(*call) error {
	return func(c *call) error {
		ctx, stop := signal.NotifyContext(c.ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		c.ctx = ctx
		if err := run(c); ctx.Err() == nil {
			return err
		}
		return nil
	}
}

// completionTimeout is the time for shell completion.
const completionTimeout = 2 * time.Second

// complete completes arguments with what the agent lists.
func (c *connection) complete(list completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		// cobra completes without running the root's PersistentPreRunE.
		if err := cli.ApplyEnvironment(cmd, nil); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		ctx, cancel := context.WithTimeout(cmp.Or(cmd.Context(), context.Background()), completionTimeout)
		defer cancel()
		agent, err := c.open(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer agent.Close()
		all, err := list(&call{Client: agent, cmd: cmd, ctx: ctx, args: args})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		matching := slices.DeleteFunc(all, func(c cobra.Completion) bool { return !strings.HasPrefix(c, typed) })
		return matching, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeJobs completes the id of a job.
func completeJobs(c *call) (ids []cobra.Completion, err error) {
	if len(c.args) > 0 {
		return nil, nil
	}
	jobs, err := c.Jobs(c.ctx, "")
	for _, j := range jobs.Value {
		ids = append(ids, cobra.CompletionWithDesc(j.ID, j.Type+", "+j.Status))
	}
	return ids, err
}

// completeAllocations completes the id of an allocation.
func completeAllocations(c *call) (ids []cobra.Completion, err error) {
	if len(c.args) > 0 {
		return nil, nil
	}
	allocations, err := c.Allocations(c.ctx, "")
	for _, a := range allocations.Value {
		ids = append(ids, cobra.CompletionWithDesc(shortID(a.ID), a.Name+", "+a.ClientStatus))
	}
	return ids, err
}

// completeTasks completes the id of an allocation, and then one of its tasks.
func completeTasks(c *call) ([]cobra.Completion, error) {
	if len(c.args) != 1 {
		return completeAllocations(c)
	}
	a, err := c.Allocation(c.ctx, c.args[0], client.Wait{})
	return slices.Sorted(maps.Keys(a.Value.TaskStates)), err
}

// shortID returns the prefix of an id that is shown and typed.
func shortID(id string) string {
	const enough = 8
	return id[:min(enough, len(id))]
}

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
