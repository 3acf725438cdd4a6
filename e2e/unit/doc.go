// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package unit tests the systemd unit of the package under a real systemd, in a guest:
//
//	TACHO_BIN=/bin/tacho TACHO_WORKLOAD=/bin/tacho \
//	TACHO_GUEST_FILES=$PWD/bin/tacho:/bin/tacho,$PWD/packaging:/src$PWD/packaging,SYSTEMD-WITH-LIBRARIES \
//	CGO_ENABLED=0 go test -exec "$PWD/bin/guest -memory 1024" ./e2e/unit
package unit
