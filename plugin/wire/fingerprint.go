// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"errors"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/proto/structs"
)

// FromFingerprint returns the message of a driver's state.
func FromFingerprint(f *driver.Fingerprint) *drivers.FingerprintResponse {
	m := &drivers.FingerprintResponse{
		Health:            drivers.FingerprintResponse_HealthState(f.Health),
		HealthDescription: text(f.Description),
	}
	if f.Err != nil {
		m.Err = text(f.Err.Error())
	}
	if len(f.Attributes) > 0 {
		m.Attributes = make(map[string]*structs.Attribute, len(f.Attributes))
		for name, a := range f.Attributes {
			m.Attributes[name] = fromAttribute(a)
		}
	}
	return m
}

// ToFingerprint returns the state of a message.
func ToFingerprint(m *drivers.FingerprintResponse) *driver.Fingerprint {
	f := &driver.Fingerprint{Health: driver.Health(m.GetHealth()), Description: m.GetHealthDescription()}
	if m.GetErr() != "" {
		f.Err = errors.New(m.GetErr())
	}
	if attributes := m.GetAttributes(); len(attributes) > 0 {
		f.Attributes = make(map[string]driver.Attribute, len(attributes))
		for name, a := range attributes {
			f.Attributes[name] = toAttribute(a)
		}
	}
	return f
}

func fromAttribute(a driver.Attribute) *structs.Attribute {
	m := &structs.Attribute{Unit: a.Unit}
	switch value := a.Value.(type) {
	case string:
		m.Value = &structs.Attribute_StringVal{StringVal: text(value)}
	case bool:
		m.Value = &structs.Attribute_BoolVal{BoolVal: value}
	case int64:
		m.Value = &structs.Attribute_IntVal{IntVal: value}
	case float64:
		m.Value = &structs.Attribute_FloatVal{FloatVal: value}
	}
	return m
}

func toAttribute(m *structs.Attribute) driver.Attribute {
	a := driver.Attribute{Unit: m.GetUnit()}
	switch value := m.GetValue().(type) {
	case *structs.Attribute_StringVal:
		a.Value = value.StringVal
	case *structs.Attribute_BoolVal:
		a.Value = value.BoolVal
	case *structs.Attribute_IntVal:
		a.Value = value.IntVal
	case *structs.Attribute_FloatVal:
		a.Value = value.FloatVal
	}
	return a
}
