// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package schema describes the shape of a configuration block, as driver plugins tell it to their hosts:
//
//	schema.Object{
//		"command": schema.Attr{Name: "command", Type: "string", Required: true},
//		"timeout": schema.Default{
//			Primary: schema.Attr{Name: "timeout", Type: "string"},
//			Default: schema.Literal(`"5s"`),
//		},
//	}
//
// It is a leaf without behaviour; package plugin decodes configurations by it and sends it over the hosts' wire.
package schema

// Spec is one of the types of this package. The nil Spec stands for a part that is missing on the wire.
type Spec interface{ spec() }

// Object is a map of what its parts decode to, by the names of the result.
type Object map[string]Spec

// Array is a tuple of what its parts decode to.
type Array []Spec

// Attr is an attribute, name = value.
type Attr struct {
	Name string
	// Type is an HCL type expression: string, number, bool, list(string), map(string), any.
	Type     string
	Required bool
}

// Block is a block without labels that occurs at most once, name { … }.
type Block struct {
	Name     string
	Required bool
	Nested   Spec
}

// BlockAttrs is a block of attributes with free names and one type: a map.
type BlockAttrs struct {
	Name     string
	Type     string
	Required bool
}

// BlockList is any number of blocks with one name, as a list.
type BlockList struct {
	Name string
	// Min and Max bound how many there are; Max 0 is no bound.
	Min, Max uint64
	Nested   Spec
}

// BlockSet is any number of blocks with one name, as a set.
type BlockSet struct {
	Name     string
	Min, Max uint64
	Nested   Spec
}

// BlockMap is any number of blocks with one name and labels: a map of maps, one level for each label.
type BlockMap struct {
	Name   string
	Labels []string
	Nested Spec
}

// Literal is a value that stands in no configuration, as an HCL expression: 5, true, "x" with its quotes.
type Literal string

// Default is Primary, or Default where that is null.
type Default struct {
	Primary, Default Spec
}

func (Object) spec()     {}
func (Array) spec()      {}
func (Attr) spec()       {}
func (Block) spec()      {}
func (BlockAttrs) spec() {}
func (BlockList) spec()  {}
func (BlockSet) spec()   {}
func (BlockMap) spec()   {}
func (Literal) spec()    {}
func (Default) spec()    {}
