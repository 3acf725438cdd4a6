// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"github.com/hashicorp/go-bexpr"
	"github.com/mitchellh/pointerstructure"

	"github.com/tachograph/tacho/internal/agent/shape"
)

// The bounds of a filter: an expression can nest, and is parsed with backtracking.
const (
	maxFilter            = 1024
	maxFilterExpressions = 50_000
)

// filter returns the elements of a list that match the expression of ?filter=, in the language of Nomad's API, over
// the names of the JSON. It sees what the caller sees.
func (q *request) filter(value any) (any, error) {
	text := q.values.Get("filter")
	list := reflect.ValueOf(value)
	if text == "" {
		return value, nil
	}
	if list.Kind() != reflect.Slice {
		return nil, badRequest("filter: the answer is not a list")
	}
	if len(text) > maxFilter {
		return nil, badRequest(fmt.Sprintf("filter: %d bytes; an expression can have %d", len(text), maxFilter))
	}
	evaluator, err := bexpr.CreateEvaluator(text, bexpr.WithMaxExpressions(maxFilterExpressions))
	if err != nil {
		return nil, badRequest("failed to read filter expression: " + err.Error())
	}
	kept := reflect.MakeSlice(list.Type(), 0, list.Len())
	unknown := 0
	var last error
	for i := range list.Len() {
		element, err := treeOf(list.Index(i).Interface())
		if err != nil {
			return nil, err
		}
		switch matches, err := evaluator.Evaluate(element); {
		case errors.Is(err, pointerstructure.ErrNotFound): // left out of this element, perhaps because it is empty
			unknown, last = unknown+1, err
		case err != nil:
			return nil, badRequest("failed to evaluate filter expression: " + err.Error())
		case matches:
			kept = reflect.Append(kept, list.Index(i))
		}
	}
	if unknown > 0 && unknown == list.Len() {
		return nil, badRequest("failed to evaluate filter expression: " + last.Error())
	}
	return kept.Interface(), nil
}

// treeOf returns the maps and slices of a value's JSON.
func treeOf(v any) (tree any, err error) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &tree)
	}
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	if object, ok := tree.(map[string]any); ok {
		if _, isJob := v.(shape.JobStub); isJob { // Nomad filters jobs, in which these are objects
			object["Periodic"], object["ParameterizedJob"] = (*struct{})(nil), (*struct{})(nil)
		}
	}
	return tree, nil
}

// page returns the part of a list that ?per_page= and ?next_token= select. A header has the token of the next part.
func (q *request) page(header http.Header, value any) (any, error) {
	size, token := q.number("per_page"), q.values.Get("next_token")
	list := reflect.ValueOf(value)
	if q.err != nil || size == 0 || list.Kind() != reflect.Slice || list.Len() == 0 {
		return value, q.err
	}
	id := func(i int) string {
		element := reflect.Indirect(list.Index(i))
		if element.Kind() == reflect.Struct && element.FieldByName("ID").IsValid() {
			return element.FieldByName("ID").String()
		}
		return strconv.Itoa(i)
	}
	first := 0
	for token != "" && id(first) != token {
		if first++; first == list.Len() {
			return nil, badRequest(fmt.Sprintf("invalid next_token %q: nothing in the list has this id", token))
		}
	}
	last := list.Len()
	if size < uint64(last-first) {
		last = first + int(size)
		header.Set("X-Nomad-Nexttoken", id(last))
	}
	return list.Slice(first, last).Interface(), nil
}
