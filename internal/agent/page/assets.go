// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"net/http"
	"time"

	"github.com/tachograph/tacho/internal/chart"
	"github.com/tachograph/tacho/procstats"
)

//go:embed assets/*
var assetFiles embed.FS

//go:embed templates/*.html
var templateFiles embed.FS

// assets are the files beside the pages.
type assets struct {
	types    map[string]string
	contents map[string][]byte
	versions map[string]string
}

func newAssets() *assets {
	a := &assets{
		types: map[string]string{
			"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
		},
		contents: map[string][]byte{}, versions: map[string]string{},
	}
	before := map[string]string{"page.css": chart.Style(), "page.js": chart.Script()}
	for name := range a.types {
		content, err := assetFiles.ReadFile("assets/" + name)
		if err != nil {
			panic("page: " + err.Error()) // it is embedded, so only a build can be at fault
		}
		content = append([]byte(before[name]), content...)
		sum := sha256.Sum256(content)
		a.contents[name], a.versions[name] = content, hex.EncodeToString(sum[:8])
	}
	return a
}

// path is where a file is, with its version: browsers may cache it forever.
func (a *assets) path(name string) string { return "/page/assets/" + name + "?v=" + a.versions[name] }

func (a *assets) serve(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	content, ok := a.contents[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.types[name])
	w.Header().Set("ETag", `"`+a.versions[name]+`"`)
	w.Header().Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == a.versions[name] {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}

// parseTemplates parses the embedded templates.
func parseTemplates(files *assets) *template.Template {
	t := template.New("").Funcs(template.FuncMap{
		"asset": files.path, "clock": formatClock, "day": formatDay, "event": formatEvent, "time": formatTime,
		"seconds": textOf(procstats.Seconds), "bytes": textOf(procstats.Bytes), "count": textOf(procstats.None),
		"share": shareText, "largest": largest, "evidence": evidenceText,
		"iso":         func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"list":        func(parts ...any) []any { return parts },
		"definitions": func() template.HTML { return chart.Definitions },
	})
	return template.Must(t.ParseFS(templateFiles, "templates/*.html"))
}
