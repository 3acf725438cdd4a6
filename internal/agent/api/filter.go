// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/hashicorp/go-bexpr"
	"github.com/mitchellh/pointerstructure"

	"github.com/tachograph/tacho/internal/agent/shape"
)

// The bounds of a filter: an expression can nest, and is read by trying.
const (
	maxFilter            = 1024
	maxFilterExpressions = 50_000
)

// filtered returns the elements of a list that meet the expression of ?filter=, in the language of Nomad's API, over the names of the
// JSON. It sees what the caller sees.
func filtered(r *http.Request, value any) (any, error) {
	text := r.URL.Query().Get("filter")
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
		switch meets, err := evaluator.Evaluate(element); {
		case errors.Is(err, pointerstructure.ErrNotFound): // left out of this one, perhaps because it is empty
			unknown, last = unknown+1, err
		case err != nil:
			return nil, badRequest("failed to evaluate filter expression: " + err.Error())
		case meets:
			kept = reflect.Append(kept, list.Index(i))
		}
	}
	if unknown > 0 && unknown == list.Len() {
		return nil, badRequest("failed to evaluate filter expression: " + last.Error())
	}
	return kept.Interface(), nil
}

// treeOf is a value as its JSON has it.
func treeOf(v any) (tree any, err error) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &tree)
	}
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	if object, ok := tree.(map[string]any); ok {
		if _, isJob := v.(shape.JobStub); isJob { // a filter of jobs is about jobs, where these are objects
			object["Periodic"], object["ParameterizedJob"] = (*struct{})(nil), (*struct{})(nil)
		}
	}
	return tree, nil
}
