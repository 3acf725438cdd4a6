// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	debian      = "http://deb.debian.org/debian"
	keyring     = "/usr/share/keyrings/debian-archive-keyring.gpg"
	metapackage = "linux-image-cloud-amd64"
)

// apt runs the apt tools on one suite with a configuration, lists and caches of its own in a
// folder. Of the system's settings it takes over what reaches the archive, such as proxies, and it
// changes nothing of the system.
type apt string

// newApt makes an empty folder dir an apt for the suite of the archive at mirror.
func newApt(dir, mirror, suite string) (apt, error) {
	if _, err := os.Stat(keyring); err != nil {
		return "", fmt.Errorf("%w (Debian package debian-archive-keyring)", err)
	}
	for _, sub := range []string{"lists/partial", "archives/partial", "none"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return "", err
		}
	}
	for name, text := range map[string]string{
		"sources.list": fmt.Sprintf("deb [arch=amd64 signed-by=%s] %s %s main\n", keyring, mirror, suite),
		"status":       "",
		"apt.conf": fmt.Sprintf(`#clear APT::Architectures;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Architecture "amd64";
APT::Architectures:: "amd64";
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::Cache "%[1]s";
Dir::State "%[1]s";
Dir::State::status "%[1]s/status";
Dir::Etc::sourcelist "%[1]s/sources.list";
Dir::Etc::sourceparts "%[1]s/none";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "%[1]s/none";
`, dir),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	return apt(dir), nil
}

// run runs an apt tool in the folder and returns what it printed.
func (a apt) run(ctx context.Context, tool string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, tool, append([]string{"-q", "-c", filepath.Join(string(a), "apt.conf")}, args...)...)
	cmd.Dir = string(a)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &stderr)
	}
	return string(text), nil
}

// kernel returns package and version of the newest kernel behind the metapackage.
func (a apt) kernel(ctx context.Context) (name, version string, err error) {
	if _, err := a.run(ctx, "apt-get", "update", "--error-on=any"); err != nil {
		return "", "", err
	}
	control, err := a.run(ctx, "apt-cache", "show", "--no-all-versions", metapackage)
	if err != nil {
		return "", "", err
	}
	name, version, ok := dependency(control)
	if !ok {
		return "", "", fmt.Errorf("no kernel in the Depends of %s:\n%s", metapackage, control)
	}
	return name, version, nil
}

// download fetches a package and returns its file.
func (a apt) download(ctx context.Context, name, version string) (string, error) {
	if _, err := a.run(ctx, "apt-get", "download", name+"="+version); err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(string(a), name+"_*.deb"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("apt-get download %s left %q: %w", name, found, err)
	}
	return found[0], nil
}

// dependency returns name and exact version of the kernel that a metapackage, as apt-cache shows it,
// depends on. Both have the letters that Debian Policy allows (5.6.1, 5.6.12), without an epoch.
func dependency(control string) (name, version string, ok bool) {
	depends := regexp.MustCompile(`(?m)^Depends:.*?[ ,|](linux-image-[a-z0-9+.-]+) *\(= *([A-Za-z0-9.+~-]+)\)`)
	found := depends.FindStringSubmatch(control)
	if found == nil {
		return "", "", false
	}
	return found[1], found[2], true
}

// systemMirror returns the Debian archive that the system's own apt sources name, otherwise
// Debian's public one.
func systemMirror(ctx context.Context) string {
	cmd := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
	sites, err := cmd.Output()
	if err != nil {
		return debian
	}
	return mirror(string(sites))
}

// mirror returns the first of the archives, one a line, that is one of Debian's main archive. By
// custom its address ends in debian; its origin is known to apt only after an update.
func mirror(sites string) string {
	for site := range strings.Lines(sites) {
		site = strings.TrimRight(site, "/\n")
		if path.Base(site) == path.Base(debian) {
			return site
		}
	}
	return debian
}
