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
	each(life, r, "poststart", context.WithCancel, func(ctx context.Context, h Poststart) error {
		return h.Poststart(ctx, req)
	})
}

func (r *Runner) exited(ctx context.Context, req *ExitedRequest) {
	each(ctx, r, "exited", teardown, func(ctx context.Context, h Exited) error { return h.Exited(ctx, req) })
}

func (r *Runner) stopHooks(ctx context.Context) {
	req := &StopRequest{State: r.State()}
	each(ctx, r, "stop", teardown, func(ctx context.Context, h Stop) error { return h.Stop(ctx, req) })
}

func (r *Runner) shutdown(ctx context.Context) {
	each(ctx, r, "shutdown", teardown, func(ctx context.Context, h Shutdown) error { return h.Shutdown(ctx) })
}

// each calls the hooks that implement a stage and logs their errors as one. A context that one hook has used up is not
// the next one's: derive makes one for each.
func each[H Hook](
	ctx context.Context, r *Runner, stage string, derive func(context.Context) (context.Context, context.CancelFunc),
	call func(context.Context, H) error,
) {
	errs := &multierror.Error{ErrorFormat: func(errs []error) string { return errors.Join(errs...).Error() }}
	for _, hook := range r.config.Hooks {
		h, ok := hook.(H)
		if !ok {
			continue
		}
		own, cancel := derive(ctx)
		if err := call(own, h); err != nil {
			errs = multierror.Append(errs, fmt.Errorf("hook %s: %w", h.Name(), err))
		}
		cancel()
	}
	if err := errs.ErrorOrNil(); err != nil {
		r.log.Error(stage+" hooks", "error", err)
	}
}

// teardown returns a context for what must be done although ctx may be done.
func teardown(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), teardownTimeout)
}
