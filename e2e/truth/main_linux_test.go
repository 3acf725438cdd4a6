// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth_test

import (
	"os"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }
