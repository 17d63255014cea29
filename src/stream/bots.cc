// NOTE to the stream engineer: bots.cc/.h, bots_test.cc, synthetic.* and examples/demo.yaml are being written by another engineer as of
// now (the lead split this off your task). Please leave them and go on with schema/decoders, files, fuzz.
