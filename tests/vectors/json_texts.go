// Adds to each case of json_cases.py whether Go's encoding/json says that it is JSON, and what it
// decodes the member v of the document to: as each type that accepts it. A double is its bits.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"unicode/utf8"
)

type verdict struct {
	Case     string            `json:"case"`
	Text     string            `json:"text"`
	Document string            `json:"document,omitempty"`
	Node     bool              `json:"node"`
	InNode   map[string]string `json:"in_node"`
	Jackson  bool              `json:"jackson"`
	Go       bool              `json:"go"`
	InGo     map[string]any    `json:"in_go"`
}

func unhex(text string) []byte {
	decoded, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return decoded
}

func add[T any](found map[string]any, name string, raw []byte, write func(T) any) {
	var value *T
	if err := json.Unmarshal(raw, &value); err != nil {
		return
	}
	if value == nil {
		found[name] = nil
	} else {
		found[name] = write(*value)
	}
}

func same[T any](value T) any { return value }

func bits(value float64) any { return fmt.Sprintf("%016x", math.Float64bits(value)) }

func decoded(document []byte) map[string]any {
	found := map[string]any{}
	var members map[string]json.RawMessage
	if !utf8.Valid(document) || json.Unmarshal(document, &members) != nil {
		return found
	}
	raw, ok := members["v"]
	if !ok {
		raw = json.RawMessage("null")
	}
	add(found, "string", raw, same[string])
	add(found, "boolean", raw, same[bool])
	add(found, "double", raw, bits)
	add(found, "int", raw, same[int32])
	add(found, "long", raw, same[int64])
	return found
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	written := json.NewEncoder(os.Stdout)
	written.SetEscapeHTML(false)
	for lines.Scan() {
		var found verdict
		if err := json.Unmarshal(lines.Bytes(), &found); err != nil {
			panic(err)
		}
		text := unhex(found.Text)
		found.Go = utf8.Valid(text) && json.Valid(text)
		found.InGo, found.Document = decoded(unhex(found.Document)), ""
		if err := written.Encode(found); err != nil {
			panic(err)
		}
	}
}
