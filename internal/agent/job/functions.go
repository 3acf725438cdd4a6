// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"crypto/md5"  //nolint:gosec // what job files ask for
	"crypto/sha1" //nolint:gosec // what job files ask for
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// functions are those of Nomad's job files that need nothing but their arguments.
func functions() map[string]function.Function {
	all := map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "chomp": stdlib.ChompFunc, "chunklist": stdlib.ChunklistFunc,
		"coalesce": stdlib.CoalesceFunc, "coalescelist": stdlib.CoalesceListFunc, "compact": stdlib.CompactFunc,
		"concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc, "csvdecode": stdlib.CSVDecodeFunc,
		"distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc,
		"floor": stdlib.FloorFunc, "format": stdlib.FormatFunc, "formatdate": stdlib.FormatDateFunc,
		"formatlist": stdlib.FormatListFunc, "indent": stdlib.IndentFunc, "index": stdlib.IndexFunc,
		"join": stdlib.JoinFunc, "jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc,
		"keys": stdlib.KeysFunc, "length": stdlib.LengthFunc, "log": stdlib.LogFunc, "lookup": stdlib.LookupFunc,
		"lower": stdlib.LowerFunc, "max": stdlib.MaxFunc, "merge": stdlib.MergeFunc, "min": stdlib.MinFunc,
		"parseint": stdlib.ParseIntFunc, "pow": stdlib.PowFunc, "range": stdlib.RangeFunc, "regex": stdlib.RegexFunc,
		"regexall": stdlib.RegexAllFunc, "regex_replace": stdlib.RegexReplaceFunc, "replace": stdlib.ReplaceFunc,
		"reverse": stdlib.ReverseListFunc, "setintersection": stdlib.SetIntersectionFunc,
		"setproduct": stdlib.SetProductFunc, "setunion": stdlib.SetUnionFunc, "signum": stdlib.SignumFunc,
		"slice": stdlib.SliceFunc, "sort": stdlib.SortFunc, "split": stdlib.SplitFunc, "strlen": stdlib.StrlenFunc,
		"strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc, "title": stdlib.TitleFunc, "trim": stdlib.TrimFunc,
		"trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc,
		"timeadd": stdlib.TimeAddFunc, "can": tryfunc.CanFunc, "try": tryfunc.TryFunc, "convert": typeexpr.ConvertFunc,
		"upper": stdlib.UpperFunc, "values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,
	}
	maps.Copy(all, textFunctions())
	return all
}

// textFunctions make a text of texts.
func textFunctions() map[string]function.Function {
	return map[string]function.Function{
		"base64encode": ofText(func(s string) (string, error) { return base64.StdEncoding.EncodeToString([]byte(s)), nil }),
		"base64decode": ofText(decodeBase64),
		"urlencode":    ofText(func(s string) (string, error) { return url.QueryEscape(s), nil }),
		"basename":     ofText(func(s string) (string, error) { return filepath.Base(s), nil }),
		"dirname":      ofText(func(s string) (string, error) { return filepath.Dir(s), nil }),
		//nolint:gosec // not for secrecy
		"md5": ofText(func(s string) (string, error) { return inHex(md5.Sum([]byte(s))) }),
		//nolint:gosec // not for secrecy
		"sha1":   ofText(func(s string) (string, error) { return inHex(sha1.Sum([]byte(s))) }),
		"sha256": ofText(func(s string) (string, error) { return inHex(sha256.Sum256([]byte(s))) }),
		"sha512": ofText(func(s string) (string, error) { return inHex(sha512.Sum512([]byte(s))) }),
	}
}

func ofText(of func(string) (string, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "str", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			text, err := of(args[0].AsString())
			return cty.StringVal(text), err
		},
	})
}

func inHex[T [16]byte | [20]byte | [32]byte | [64]byte](sum T) (string, error) {
	return fmt.Sprintf("%x", sum), nil
}

func decodeBase64(text string) (string, error) {
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", fmt.Errorf("decode base64: %w", err)
	}
	if !utf8.Valid(decoded) {
		return "", errors.New("the decoded text is not UTF-8")
	}
	return string(decoded), nil
}
