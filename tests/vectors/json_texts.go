// Adds to each case of json_cases.py whether Go's encoding/json says that it is JSON.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"unicode/utf8"
)

type verdict struct {
	Case    string `json:"case"`
	Text    string `json:"text"`
	Node    bool   `json:"node"`
	Jackson bool   `json:"jackson"`
	Go      bool   `json:"go"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var found verdict
		if err := json.Unmarshal(lines.Bytes(), &found); err != nil {
			panic(err)
		}
		text, err := hex.DecodeString(found.Text)
		if err != nil {
			panic(err)
		}
		found.Go = utf8.Valid(text) && json.Valid(text)
		written, err := json.Marshal(found)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(written))
	}
}
