// The `leat` program.
#include "leat.h"

int main(int argc, char** argv) {
  return leat::Main(argc, argv);
}
