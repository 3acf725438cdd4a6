// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"
)

// prestart calls the prestart hooks up to the first error.
func (r *Runner) prestart(life context.Context) error {
	req := &PrestartRequest{Restarts: r.State().Restarts}
	for _, hook := range r.config.Hooks {
		h, ok := hook.(Prestart)
		if !ok {
			continue
		}
		if err := h.Prestart(life, req); err != nil {
			return fmt.Errorf("prestart hook %s: %w", h.Name(), err)
		}
	}
	return nil
}

func (r *Runner) poststart(life context.Context, req *PoststartRequest) {
	each(r, "poststart", func(h Poststart) error { return h.Poststart(life, req) })
}

func (r *Runner) exited(ctx context.Context, req *ExitedRequest) {
	ctx, cancel := teardown(ctx)
	defer cancel()
	each(r, "exited", func(h Exited) error { return h.Exited(ctx, req) })
}

func (r *Runner) stopHooks(ctx context.Context) {
	ctx, cancel := teardown(ctx)
	defer cancel()
	req := &StopRequest{State: r.State()}
	each(r, "stop", func(h Stop) error { return h.Stop(ctx, req) })
}

func (r *Runner) shutdown(ctx context.Context) {
	ctx, cancel := teardown(ctx)
	defer cancel()
	each(r, "shutdown", func(h Shutdown) error { return h.Shutdown(ctx) })
}

// each calls the hooks that take part in a phase, and logs their errors.
func each[H Hook](r *Runner, phase string, call func(H) error) {
	for _, hook := range r.config.Hooks {
		h, ok := hook.(H)
		if !ok {
			continue
		}
		if err := call(h); err != nil {
			r.log.Error(phase+" hook returned an error", "hook", h.Name(), "error", err)
		}
	}
}

// teardown returns a context for what has to be done although ctx may be done.
func teardown(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), teardownTimeout)
}
