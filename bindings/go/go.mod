module rserve

go 1.19
