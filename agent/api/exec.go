// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import "net/http"

func (s *Server) exec(w http.ResponseWriter, r *http.Request) { s.notHere("later")(w, r) }
