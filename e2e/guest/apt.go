// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

const (
	debian  = "http://deb.debian.org/debian"
	keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
)

// apt runs the apt tools on one suite with a configuration, lists and caches of its own.
// Of the system's apt settings it takes over what reaches the archive (proxies, timeouts),
// and it changes nothing of the system.
type apt struct {
	dir string
}

// newApt makes the apt folder dir for the suite of the archive at mirror.
func newApt(dir, mirror, suite string) (apt, error) {
	if _, err := os.Stat(keyring); err != nil {
		return apt{}, fmt.Errorf("%w (package debian-archive-keyring)", err)
	}
	for _, sub := range []string{"lists/partial", "archives/partial", "parts"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return apt{}, err
		}
	}
	files := map[string]string{
		"sources.list": fmt.Sprintf("deb [arch=amd64 signed-by=%s] %s %s main\n", keyring, mirror, suite),
		"status":       "",
		"apt.conf": `#clear APT::Architectures;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Architecture "amd64";
APT::Architectures:: "amd64";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
` + fmt.Sprintf(`Dir::Etc::sourcelist %[1]q;
Dir::Etc::sourceparts %[2]q;
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts %[2]q;
Dir::State %[3]q;
Dir::State::status %[4]q;
Dir::Cache %[3]q;
`, filepath.Join(dir, "sources.list"), filepath.Join(dir, "parts"), dir, filepath.Join(dir, "status")),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return apt{}, err
		}
	}
	return apt{dir}, nil
}

// run runs an apt tool in the apt folder and returns what it printed.
func (a apt) run(ctx context.Context, tool string, args ...string) (string, error) {
	args = append([]string{"-q", "-c", filepath.Join(a.dir, "apt.conf")}, args...)
	return output(ctx, a.dir, tool, args...)
}

// download fetches the newest version of the kernel behind the metapackage, not the
// metapackage itself, and returns it with the path of its file.
func (a apt) download(ctx context.Context, metapackage string) (dependency, string, error) {
	if _, err := a.run(ctx, "apt-get", "update", "--error-on=any"); err != nil {
		return dependency{}, "", err
	}
	control, err := a.run(ctx, "apt-cache", "show", "--no-all-versions", metapackage)
	if err != nil {
		return dependency{}, "", err
	}
	kernel, err := image(control)
	if err != nil {
		return dependency{}, "", err
	}
	if _, err := a.run(ctx, "apt-get", "download", kernel.name+"="+kernel.version); err != nil {
		return dependency{}, "", err
	}
	found, err := filepath.Glob(filepath.Join(a.dir, kernel.name+"_*.deb"))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("apt-get download %s: %w", kernel.name, fs.ErrNotExist)
	}
	if err != nil {
		return dependency{}, "", err
	}
	return kernel, found[0], nil
}

// systemMirror returns the Debian archive that the system's own apt sources name,
// otherwise Debian's public one.
func systemMirror(ctx context.Context) string {
	sites, err := output(ctx, "", "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
	if err != nil {
		return debian
	}
	for site := range strings.Lines(sites) {
		site = strings.TrimRight(site, "/\n")
		if path.Base(site) == path.Base(debian) {
			return site
		}
	}
	return debian
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%w: kernels are fetched with the tools of Debian (packages apt, dpkg)", err)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &stderr)
	}
	return stdout.String(), nil
}
