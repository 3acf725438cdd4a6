// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// apt runs the apt tools on one suite with a configuration, lists and caches of its own in a
// folder. Of the system's settings it takes over what reaches the archive, such as proxies, and it
// changes nothing of the system.
type apt string

// newApt makes an empty folder dir an apt for the architecture and the suite of the archive, with its lists updated.
func newApt(ctx context.Context, dir, archive, suite, arch string) (apt, error) {
	if _, err := os.Stat(keyring); err != nil {
		return "", fmt.Errorf("%w (Debian package debian-archive-keyring)", err)
	}
	for _, sub := range []string{"lists/partial", "archives/partial", "none"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return "", err
		}
	}
	for name, text := range map[string]string{
		"sources.list": fmt.Sprintf("deb [arch=%s signed-by=%s] %s %s main\n", arch, keyring, archive, suite),
		"status":       "",
		"apt.conf": fmt.Sprintf(`#clear APT::Architectures;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Architecture "%[2]s";
APT::Architectures:: "%[2]s";
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::Cache "%[1]s";
Dir::State "%[1]s";
Dir::State::status "%[1]s/status";
Dir::Etc::sourcelist "%[1]s/sources.list";
Dir::Etc::sourceparts "%[1]s/none";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "%[1]s/none";
`, dir, arch),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	a := apt(dir)
	_, err := a.run(ctx, "apt-get", "update", "--error-on=any")
	return a, err
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

// kernel returns the version of the newest kernel behind the metapackage, and the packages with its files.
func (a apt) kernel(ctx context.Context, metapackage string) (version string, packages []string, err error) {
	control, err := a.run(ctx, "apt-cache", "show", "--no-all-versions", metapackage)
	if err != nil {
		return "", nil, err
	}
	images := exactly(control, "image")
	if len(images) == 0 {
		return "", nil, fmt.Errorf("no kernel in the Depends of %s:\n%s", metapackage, control)
	}
	image := images[0]
	_, version, _ = strings.Cut(image, "=")
	if control, err = a.run(ctx, "apt-cache", "show", image); err != nil {
		return "", nil, err
	}
	// Kernels of Debian 14 have two packages behind that one.
	if packages = exactly(control, "binary|modules"); len(packages) == 0 {
		packages = images[:1]
	}
	return version, packages, nil
}

// download fetches packages, "name=version", and returns their files.
func (a apt) download(ctx context.Context, packages []string) ([]string, error) {
	if _, err := a.run(ctx, "apt-get", append([]string{"download"}, packages...)...); err != nil {
		return nil, err
	}
	found, err := filepath.Glob(filepath.Join(string(a), "*.deb"))
	if err != nil || len(found) != len(packages) {
		return nil, fmt.Errorf("apt-get download %s left %q: %w", packages, found, err)
	}
	return found, nil
}

// closure fetches packages with all that they depend on, and returns the files.
func (a apt) closure(ctx context.Context, packages []string) ([]string, error) {
	args := []string{"install", "-y", "--no-install-recommends", "--download-only"}
	if _, err := a.run(ctx, "apt-get", append(args, packages...)...); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(string(a), "archives", "*.deb"))
}

// exactly returns the packages of a kernel, "name=version", that a package, as apt-cache shows it, depends on in one
// exact version. Both have the letters that Debian Policy allows (5.6.1, 5.6.12), without an epoch.
func exactly(control, kinds string) []string {
	var found []string
	depends := regexp.MustCompile(`(?m)^Depends:.*$`).FindString(control)
	dependency := regexp.MustCompile(`[ ,|](linux-(?:` + kinds + `)-[a-z0-9+.-]+) *\(= *([A-Za-z0-9.+~-]+)\)`)
	for _, match := range dependency.FindAllStringSubmatch(depends, -1) {
		found = append(found, match[1]+"="+match[2])
	}
	return found
}

// systemArchive returns the Debian archive that the system's own apt sources name.
func systemArchive(ctx context.Context) (string, error) {
	sites, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages").Output()
	if err != nil {
		return "", fmt.Errorf("read the sources of apt: %w; name the archive with -archive", err)
	}
	// By custom the address of the main archive ends in debian; its origin is known to apt only after an update.
	for site := range strings.Lines(string(sites)) {
		if site = strings.TrimRight(site, "/\n"); path.Base(site) == "debian" {
			return site, nil
		}
	}
	return "", errors.New("no archive of Debian among the sources of apt; name one with -archive")
}
