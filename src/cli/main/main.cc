// The `leat` program.
#include "cli/leat.h"

int main(int argc, char** argv) {
  return leat::Main(argc, argv);
}
