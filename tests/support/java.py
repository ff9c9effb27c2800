"""Java for tests: a virtual machine that lives for seconds never gains what the better compiler costs."""

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
