// main HOST PORT: Go's net/rpc over the MessagePack-RPC codec of ugorji/go. Prints what expected.txt holds.
package main

import (
	"fmt"
	"log"
	"net"
	"net/rpc"
	"os"
	"strings"

	"github.com/ugorji/go/codec"
)

type params = map[string]any

type limit struct {
	Name      string `codec:"name"`
	Limit     int64  `codec:"limit"`
	Remaining int64  `codec:"remaining"`
	Lease     string `codec:"lease"`
}

type decision struct {
	Allowed      bool    `codec:"allowed"`
	Action       string  `codec:"action"`
	DecidedBy    *string `codec:"decided_by"`
	RetryAfterMs int64   `codec:"retry_after_ms"`
	Limits       []limit `codec:"limits"`
}

type released struct {
	Released bool `codec:"released"`
}

func connect(address string) *rpc.Client {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	handle := &codec.MsgpackHandle{WriteExt: true} // WriteExt: text is str, not the raw of old
	return rpc.NewClientWithCodec(codec.MsgpackSpecRpc.ClientCodec(conn, handle))
}

func ask(client *rpc.Client, method string, args params, result any) {
	if err := client.Call(method, args, result); err != nil {
		log.Fatalf("%s: %v", method, err)
	}
}

func wait(retryAfterMs int64) string {
	switch retryAfterMs {
	case 0:
		return "now"
	case -1:
		return "never"
	}
	return "later"
}

func show(title string, got decision) {
	by := "-"
	if got.DecidedBy != nil {
		by = *got.DecidedBy
	}
	first := got.Limits[0]
	fmt.Printf("%s: %t %s %s %s %d %d %s\n", title, got.Allowed, got.Action, by, first.Name, first.Limit,
		first.Remaining, wait(got.RetryAfterMs))
}

func decide(client *rpc.Client, title, method string, args params) decision {
	var got decision
	ask(client, method, args, &got)
	show(title, got)
	return got
}

func rates(client *rpc.Client) {
	first, second := params{"client": "go-0"}, params{"client": "go-1"}
	for i := 0; i < 4; i++ {
		decide(client, "check", "check", params{"attributes": first})
	}
	decide(client, "check too dear", "check", params{"attributes": second, "cost": 4})
	for i := 0; i < 2; i++ {
		decide(client, "same id", "check", params{"attributes": second, "id": "go-once"})
	}
	for i := 0; i < 2; i++ {
		decide(client, "peek", "check", params{"attributes": second, "peek": true})
	}
	one := params{"attributes": second}
	var many []decision
	ask(client, "check_many", params{"requests": []params{one, one, one}}, &many)
	for _, got := range many {
		show("check many", got)
	}
	for i := 0; i < 3; i++ {
		decide(client, "throttle", "throttle", params{"key": "go", "rate": "2/d"})
	}
}

func leases(client *rpc.Client) {
	pool := params{"attributes": params{"pool": "go"}}
	held := decide(client, "lease", "check", pool)
	decide(client, "lease taken", "check", pool)
	for _, title := range []string{"release", "release again"} {
		var got released
		ask(client, "release", params{"lease": held.Limits[0].Lease}, &got)
		fmt.Printf("%s: %t\n", title, got.Released)
	}
	decide(client, "lease", "check", pool)
}

func failures(client *rpc.Client) {
	for _, call := range [][2]string{{"unknown method", "no_such_method"}, {"no attributes", "check"}} {
		err := client.Call(call[1], params{"cost": 1}, nil)
		if err == nil {
			log.Fatalf("%s: no error", call[0])
		}
		code, _, _ := strings.Cut(err.Error(), ":")
		fmt.Printf("%s: %s\n", call[0], code)
	}
}

func atOnce(client *rpc.Client) {
	var got [20]decision
	done := make(chan *rpc.Call, len(got))
	for i := range got {
		client.Go("check", params{"attributes": params{"client": "go-2"}}, &got[i], done)
	}
	allowed := 0
	for range got {
		call := <-done
		if call.Error != nil {
			log.Fatal(call.Error)
		}
		if call.Reply.(*decision).Allowed {
			allowed++
		}
	}
	fmt.Printf("at once: %d of %d\n", allowed, len(got))
}

func main() {
	client := connect(net.JoinHostPort(os.Args[1], os.Args[2]))
	defer client.Close()
	rates(client)
	leases(client)
	failures(client)
	atOnce(client)
}
