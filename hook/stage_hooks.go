// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/go-multierror"
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
	each(r, "exited", func(h Exited) error {
		ctx, cancel := teardown(ctx)
		defer cancel()
		return h.Exited(ctx, req)
	})
}

func (r *Runner) stopHooks(ctx context.Context) {
	req := &StopRequest{State: r.State()}
	each(r, "stop", func(h Stop) error {
		ctx, cancel := teardown(ctx)
		defer cancel()
		return h.Stop(ctx, req)
	})
}

func (r *Runner) shutdown(ctx context.Context) {
	each(r, "shutdown", func(h Shutdown) error {
		ctx, cancel := teardown(ctx)
		defer cancel()
		return h.Shutdown(ctx)
	})
}

// each calls the hooks that implement a stage and logs their errors as one. A context that one hook has used up is not
// the next one's: call makes one for each.
func each[H Hook](r *Runner, stage string, call func(H) error) {
	errs := &multierror.Error{ErrorFormat: func(errs []error) string { return errors.Join(errs...).Error() }}
	for _, hook := range r.config.Hooks {
		h, ok := hook.(H)
		if !ok {
			continue
		}
		if err := call(h); err != nil {
			errs = multierror.Append(errs, fmt.Errorf("hook %s: %w", h.Name(), err))
		}
	}
	if err := errs.ErrorOrNil(); err != nil {
		r.log.Error(stage+" hooks", "error", err)
	}
}

// teardown returns a context for what must be done although ctx may be done.
func teardown(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), teardownTimeout)
}
