#!/bin/sh
# In cmake's place where ibverbs-sys is built. That crate needs the headers of rdma-core, which are
# there when cmake has configured it; its libraries, minutes of compiling, it would not use.
[ "$1" = --build ] || exec cmake "$@"
