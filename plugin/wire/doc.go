// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package wire turns what package driver says into messages of the hosts' wire and back: FromX makes a message,
// ToX reads one. Reading never fails where a value can be passed on as it came; what a peer must not send is an
// error that wraps driver.ErrInvalid. A missing message reads as the zero value.
package wire
