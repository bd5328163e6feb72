module interop

go 1.21

require github.com/ugorji/go/codec v1.3.1
