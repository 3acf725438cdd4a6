// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package advice follows the advice of tacho advise: it runs programs as their users would, takes what is advised, and
// runs them again within it, with nothing in the page cache. A program that is killed, thrashes or takes longer then,
// or that less would have been enough for, is a fault.
package advice
