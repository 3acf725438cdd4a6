// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/msgpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/proto/hclspec"
	"github.com/tachograph/tacho/plugin/proto/structs"
	"github.com/tachograph/tacho/plugin/wire"
)

// pluginShutDown is how other hosts and their plugins say that a plugin is down.
const pluginShutDown = "plugin is shut down"

// toError returns the driver's error for what a call returned; nil of nil. Its text is the peer's own, its kind can
// be asked with errors.Is, and driver.IsRecoverable says what the peer said of it.
func toError(err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	remote := &remoteError{text: s.Message(), kind: kindOf(s)}
	for _, detail := range s.Details() {
		if r, ok := detail.(*structs.RecoverableError); ok && s.Code() == codes.FailedPrecondition {
			return driver.Recoverable(remote, r.GetRecoverable())
		}
	}
	return remote
}

func kindOf(s *status.Status) error {
	switch s.Code() {
	case codes.Canceled:
		return context.Canceled
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	case codes.Unavailable:
		return driver.ErrUnavailable
	case codes.InvalidArgument:
		return driver.ErrInvalid
	case codes.Unimplemented:
		return driver.ErrNotSupported
	}
	for _, sentinel := range wire.ByText() {
		if strings.Contains(s.Message(), sentinel.Error()) {
			return sentinel
		}
	}
	if strings.Contains(s.Message(), pluginShutDown) {
		return driver.ErrUnavailable
	}
	return nil
}

// remoteError is an error of a peer.
type remoteError struct {
	text string
	kind error // for errors.Is; nil where it is of no known kind
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

// toExitResult returns the exit in a message; nil of nil.
func toExitResult(m *drivers.ExitResult) *driver.ExitResult {
	return wire.Convert[driver.ExitResult](m)
}

// toWait returns the exit in a message; one that holds none is an error and not an exit with code 0.
func toWait(m *drivers.WaitTaskResponse) *driver.ExitResult {
	r := toExitResult(m.GetResult())
	if r == nil {
		r = &driver.ExitResult{Code: -1, Err: errors.New("the driver sent no exit result")}
	}
	if m.GetErr() != "" {
		r.Err = errors.New(m.GetErr())
	}
	return r
}

// toTaskStatus returns what a message says of a task.
func toTaskStatus(m *drivers.InspectTaskResponse) *driver.TaskStatus {
	s := wire.Convert[driver.TaskStatus](m.GetTask())
	if s == nil {
		s = &driver.TaskStatus{}
	}
	if s.State != driver.TaskExited {
		s.Exit = nil
	}
	s.Attributes = m.GetDriver().GetAttributes()
	return s
}

// toFingerprint returns the state of a message.
func toFingerprint(m *drivers.FingerprintResponse) *driver.Fingerprint {
	f := &driver.Fingerprint{Health: driver.Health(m.GetHealth()), Description: m.GetHealthDescription()}
	if m.GetErr() != "" {
		f.Health, f.Description = driver.Unhealthy, m.GetErr()
	}
	if attributes := m.GetAttributes(); len(attributes) > 0 {
		f.Attributes = make(map[string]any, len(attributes))
		for name, a := range attributes {
			f.Attributes[name] = toAttribute(a)
		}
	}
	return f
}

func toAttribute(m *structs.Attribute) any {
	switch value := m.GetValue().(type) {
	case *structs.Attribute_StringVal:
		return value.StringVal
	case *structs.Attribute_BoolVal:
		return value.BoolVal
	}
	return m.String()
}

// Encode decodes a block by a schema and encodes it as a plugin is sent it.
func Encode(schema *hclspec.Spec, body hcl.Body, vars *hcl.EvalContext) ([]byte, error) {
	decoder, err := ToDecoder(schema)
	if err != nil {
		return nil, err
	}
	value, diags := hcldec.Decode(body, decoder, vars)
	if diags.HasErrors() {
		return nil, diags
	}
	return msgpack.Marshal(value, value.Type())
}

// ToDecoder returns the decoder of a schema. It rejects what the decoder would panic at.
func ToDecoder(m *hclspec.Spec) (hcldec.Spec, error) {
	switch kind := m.GetKind().(type) {
	case *hclspec.Spec_Object:
		object := make(hcldec.ObjectSpec)
		for name, part := range kind.Object.GetAttributes() {
			decoder, err := ToDecoder(part)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			object[name] = decoder
		}
		return object, nil
	case *hclspec.Spec_Attr:
		t, err := toType(kind.Attr.GetType())
		return &hcldec.AttrSpec{Name: kind.Attr.GetName(), Type: t, Required: kind.Attr.GetRequired()}, err
	case *hclspec.Spec_BlockAttrs:
		t, err := toType(kind.BlockAttrs.GetType())
		return &hcldec.BlockAttrsSpec{
			TypeName: kind.BlockAttrs.GetName(), ElementType: t, Required: kind.BlockAttrs.GetRequired(),
		}, err
	case *hclspec.Spec_Literal:
		value, err := evaluate(kind.Literal.GetValue())
		return &hcldec.LiteralSpec{Value: value}, err
	case *hclspec.Spec_Default:
		primary, err := ToDecoder(kind.Default.GetPrimary())
		fallback, fallbackErr := ToDecoder(kind.Default.GetDefault())
		return &hcldec.DefaultSpec{Primary: primary, Default: fallback}, errors.Join(err, fallbackErr)
	case *hclspec.Spec_BlockValue:
		nested, err := ToDecoder(kind.BlockValue.GetNested())
		return &hcldec.BlockSpec{
			TypeName: kind.BlockValue.GetName(), Nested: nested, Required: kind.BlockValue.GetRequired(),
		}, err
	case *hclspec.Spec_BlockList:
		nested, err := ToDecoder(kind.BlockList.GetNested())
		return &hcldec.BlockListSpec{TypeName: kind.BlockList.GetName(), Nested: nested}, err
	case *hclspec.Spec_BlockMap:
		nested, err := ToDecoder(kind.BlockMap.GetNested())
		return &hcldec.BlockMapSpec{
			TypeName: kind.BlockMap.GetName(), LabelNames: kind.BlockMap.GetLabels(), Nested: nested,
		}, err
	}
	return nil, fmt.Errorf("schema has a part %T: %w", m.GetKind(), driver.ErrInvalid)
}

func toType(text string) (cty.Type, error) {
	expression, diags := hclsyntax.ParseExpression([]byte(text), "type", hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilType, diags
	}
	t, diags := typeexpr.TypeConstraint(expression)
	if diags.HasErrors() {
		return cty.NilType, diags
	}
	return t, nil
}

func evaluate(text string) (cty.Value, error) {
	expression, diags := hclsyntax.ParseExpression([]byte(text), "literal", hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	value, diags := expression.Value(nil)
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	return value, nil
}
