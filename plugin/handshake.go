// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"

	goplugin "github.com/hashicorp/go-plugin"
)

// The hosts' handshake. The cookie is no secret: it tells a user who starts a plugin by hand that it is one.
const (
	CookieKey       = "NOMAD_PLUGIN_MAGIC_COOKIE"
	CookieValue     = "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255"
	protocolVersion = 2
	// APIVersion is the version of the plugin API that we speak, on both sides.
	APIVersion = "v0.1.0"
)

// Requested reports whether a host started this process as its plugin.
func Requested() bool { return os.Getenv(CookieKey) == CookieValue }

// Handshake is how a host and its plugins recognise each other.
func Handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{
		ProtocolVersion:  protocolVersion,
		MagicCookieKey:   CookieKey,
		MagicCookieValue: CookieValue,
	}
}
