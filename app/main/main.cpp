#include "app/cli.hpp"

int main(int argc, char** argv) {
  return sluice::app::run(argc, argv);
}
