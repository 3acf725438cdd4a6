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

// assets are the files beside the pages, by name. Browsers may cache those of a version forever.
type assets struct {
	contents map[string][]byte
	version  string
}

func newAssets() *assets {
	a := &assets{contents: map[string][]byte{}}
	sum := sha256.New()
	for _, file := range []struct{ name, before string }{
		{"icon.svg", ""}, {"page.css", chart.Style()}, {"page.js", chart.Script()},
	} {
		content, err := assetFiles.ReadFile("assets/" + file.name)
		if err != nil {
			panic("page: " + err.Error()) // it is embedded, so only a build can be at fault
		}
		a.contents[file.name] = append([]byte(file.before), content...)
		sum.Write(a.contents[file.name])
	}
	a.version = hex.EncodeToString(sum.Sum(nil)[:8])
	return a
}

// path is where a file is, with its version.
func (a *assets) path(name string) string { return "/page/assets/" + name + "?v=" + a.version }

func (a *assets) serve(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	content, ok := a.contents[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", `"`+a.version+`"`)
	w.Header().Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == a.version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content)) // of the type that its name has
}

// parseTemplates parses the embedded templates.
func parseTemplates(files *assets) *template.Template {
	t := template.New("").Funcs(template.FuncMap{
		"asset": files.path, "clock": formatClock, "day": formatDay, "event": formatEvent, "time": formatTime,
		"seconds": textOf(procstats.Seconds), "bytes": textOf(procstats.Bytes), "count": textOf(procstats.None),
		"counted": countedText,
		"share":   shareText, "largest": largest, "evidence": evidenceText, "guarantee": guaranteeOf,
		"iso":         func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"list":        func(parts ...any) []any { return parts },
		"definitions": func() template.HTML { return chart.Definitions },
	})
	return template.Must(t.ParseFS(templateFiles, "templates/*.html"))
}
