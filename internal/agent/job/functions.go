// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job

import (
	"crypto/md5"  //nolint:gosec // what job files ask for
	"crypto/sha1" //nolint:gosec // what job files ask for
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
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
		"uuidv5": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "namespace", Type: cty.String}, {Name: "name", Type: cty.String}},
			Type:   function.StaticReturnType(cty.String),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				id, err := uuidV5(args[0].AsString(), args[1].AsString())
				return cty.StringVal(id), err
			},
		}),
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

// namespaces are those of RFC 4122 with a name, by their last digit.
func namespaces() map[string]byte {
	return map[string]byte{"dns": 0x10, "url": 0x11, "oid": 0x12, "x500": 0x14}
}

// uuidV5 is the id of a name in a namespace, by RFC 4122.
func uuidV5(namespace, name string) (string, error) {
	space := []byte{0x6b, 0xa7, 0xb8, 0, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}
	if last, known := namespaces()[namespace]; known {
		space[3] = last
	} else {
		digits := namespace
		if len(digits) == 36 && digits[8] == '-' && digits[13] == '-' && digits[18] == '-' && digits[23] == '-' {
			digits = digits[:8] + digits[9:13] + digits[14:18] + digits[19:23] + digits[24:]
		}
		decoded, err := hex.DecodeString(digits)
		if err != nil || len(decoded) != 16 {
			return "", fmt.Errorf("namespace %q: must be dns, url, oid, x500 or a UUID", namespace)
		}
		space = decoded
	}
	sum := sha1.Sum(append(space, name...)) //nolint:gosec // what the RFC asks for
	id := sum[:16]
	id[6], id[8] = id[6]&0x0f|0x50, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]), nil
}
