// Package records reads the records that a producer must write (README.md).
package records

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// Record has a nil key if it has no key.
type Record struct {
	Topic, Kind string
	Key, Value  []byte
}

// Read returns the records of standard input.
func Read() []Record {
	var all []Record
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		all = append(all, Record{fields[0], fields[1], key(fields[1], fields[2]), []byte(fields[3])})
	}
	Must(lines.Err())
	return all
}

func key(kind, written string) []byte {
	switch kind {
	case "null":
		return nil
	case "bytes", "text":
		decoded, err := hex.DecodeString(written)
		Must(err)
		return decoded
	case "int32":
		number, err := strconv.ParseInt(written, 10, 32)
		Must(err)
		return binary.BigEndian.AppendUint32(nil, uint32(number))
	case "int64":
		number, err := strconv.ParseInt(written, 10, 64)
		Must(err)
		return binary.BigEndian.AppendUint64(nil, uint64(number))
	}
	log.Fatal(kind)
	return nil
}

// Must ends the program if there is an error.
func Must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Partitioner returns the name of a partitioner that is not the default, or "".
func Partitioner() string {
	if len(os.Args) > 2 {
		return os.Args[2]
	}
	return ""
}

// PrintVersion prints the version of a module that the program was built with.
func PrintVersion(module string) {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			fmt.Println(strings.TrimPrefix(dependency.Version, "v"))
		}
	}
}
