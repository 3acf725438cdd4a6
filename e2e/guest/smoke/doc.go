// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package smoke asserts what its test binary finds in a guest kernel, so that other tests may rely
// on it. It has nothing but tests.
package smoke
