// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/token"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrForeign is wrapped by the errors for files that are JSON and not a record of ours, or one of a later major
// version of the schema.
var ErrForeign = errors.New("not a record that this version reads")

// Read reads the record of the run in dir. The error names the file and, where its text is at fault, the line;
// it wraps fs.ErrNotExist where the folder holds no record.
func Read(dir string) (*Record, error) {
	path := filepath.Join(dir, InfoFile)
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	r, err := Decode(content)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}

// Decode reads a record from the text of an info.json. Fields that this version does not know are passed over.
func Decode(content []byte) (*Record, error) {
	if err := checkSchema(content); err != nil {
		return nil, err
	}
	r := new(Record)
	if err := json.Unmarshal(content, r); err != nil {
		return nil, placed(err, content)
	}
	return r, nil
}

// DecodeUsage reads one line of a usage.jsonl.
func DecodeUsage(line []byte) (*Usage, error) {
	if err := checkSchema(line); err != nil {
		return nil, err
	}
	u := new(Usage)
	if err := json.Unmarshal(line, u); err != nil {
		return nil, placed(err, line)
	}
	return u, nil
}

// ReadUsage yields the lines of the run's usage.jsonl in order. A line that cannot be read yields an error with
// file and line, and reading goes on behind it. A last line without its newline is still being written, or its
// writer was cut off: it is passed over.
func ReadUsage(dir string) iter.Seq2[*Usage, error] {
	path := filepath.Join(dir, UsageFile)
	return func(yield func(*Usage, error) bool) {
		file, err := os.Open(path)
		if err != nil {
			yield(nil, fmt.Errorf("read usage: %w", err))
			return
		}
		defer file.Close()
		decodeLines(file, path, yield)
	}
}

func decodeLines(text io.Reader, path string, yield func(*Usage, error) bool) {
	reader := bufio.NewReader(text)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			yield(nil, fmt.Errorf("read %s: line %d: %w", path, number, err))
			return
		}
		u, err := DecodeUsage(line)
		if err != nil {
			// The place within the line helps no reader; the line is.
			if misplaced := (*lineError)(nil); errors.As(err, &misplaced) {
				err = misplaced.err
			}
			u, err = nil, fmt.Errorf("read %s: line %d: %w", path, number, err)
		}
		if !yield(u, err) {
			return
		}
	}
}

// checkSchema refuses what is not ours before its fields are taken for something else.
func checkSchema(content []byte) error {
	var head struct {
		SchemaVersion *string `json:"schema_version"`
	}
	if len(bytes.TrimSpace(content)) == 0 {
		return fmt.Errorf("the file is empty: %w", ErrForeign)
	}
	if err := json.Unmarshal(content, &head); err != nil {
		return placed(err, content)
	}
	if head.SchemaVersion == nil {
		return fmt.Errorf("it has no schema_version: %w", ErrForeign)
	}
	ours, _, _ := strings.Cut(SchemaVersion, ".")
	if major, _, _ := strings.Cut(*head.SchemaVersion, "."); major != ours {
		return fmt.Errorf("schema_version %q, not %s.x: %w", *head.SchemaVersion, ours, ErrForeign)
	}
	return nil
}

// lineError is a fault in a text, with the line it is on.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }

func (e *lineError) Unwrap() error { return e.err }

// placed adds the line to an error of encoding/json, which knows the offset.
func placed(err error, content []byte) error {
	offset := int64(len(content))
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		offset = syntax.Offset
	} else if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
		// A field of an embedded part has the part's name before it, which is exported, as no key in JSON is.
		keys := slices.DeleteFunc(strings.Split(kind.Field, "."), token.IsExported)
		offset = kind.Offset
		err = errors.New(strings.TrimPrefix(strings.Join(keys, ".")+": unexpected "+kind.Value, ": "))
	}
	before := content[:min(offset, int64(len(content)))]
	return &lineError{line: 1 + bytes.Count(bytes.TrimRight(before, "\n"), []byte{'\n'}), err: err}
}
