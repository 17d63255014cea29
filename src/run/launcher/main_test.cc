// main() of the test program: runs the tests, or acts as a child process that a test has started.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "run/launcher/processes.h"
#include "run/launcher/testing.h"

namespace leat::launcher {
namespace {

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

[[noreturn]] void WaitForEver() {
  Say("waiting");
  while (true) pause();
}

// The actions of a child of processes_test.cc.
int Play(const std::string& part, const std::vector<std::string>& arguments) {
  if (part == "exit") return std::atoi(arguments.at(0).c_str());
  if (part == "wait") WaitForEver();
  if (part == "stubborn") {
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    WaitForEver();
  }
  if (part == "say") {
    for (size_t i = 1; i < arguments.size(); ++i) Say(arguments[i]);
    return std::atoi(arguments.at(0).c_str());
  }
  if (part == "chatter") {
    for (uint64_t bytes = 0; bytes <= kMostLog; bytes += 1001) Say(std::string(1000, 'x'));
    while (true) {
      usleep(1000);
      Say("more");
    }
  }
  if (part == "print") {
    for (const auto& argument : arguments) {
      const char* value = std::getenv(argument.c_str());
      Say("[" + argument + "]" + (value != nullptr ? std::string("=") + value : ""));
    }
    return 0;
  }
  if (part == "who") {
    std::array<char, 4096> here{};
    Say(std::to_string(getuid()) + " " + std::to_string(getegid()) + " " +
        std::to_string(getgroups(0, nullptr)) + " " +
        (getcwd(here.data(), here.size()) != nullptr ? here.data() : "?"));
    WaitForEver();
  }
  if (part == "stand") {
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    Say("group " + std::to_string(getpgrp()));
    Say("blocked " + std::to_string(sigismember(&blocked, SIGTERM) + sigismember(&blocked, SIGINT)));
    char c;
    if (read(STDIN_FILENO, &c, 1) == 0) Say("stdin ends");
    return 0;
  }
  if (part == "work") {
    std::vector<char> memory(32 << 20, 'x');
    rusage usage{};
    do {
      for (char& c : memory) c = static_cast<char>(c + 1);
      getrusage(RUSAGE_SELF, &usage);
    } while (usage.ru_utime.tv_sec == 0 && usage.ru_utime.tv_usec < 20'000);
    return memory[1] == 0 ? 1 : 0;
  }
  if (part == "parent") {
    Processes processes;
    const auto pid =
        processes.Start({.name = "grandchild", .arguments = {kChild, "wait"}, .log = arguments.at(0)});
    Say("pid " + std::to_string(pid.ok() ? *pid : -1));
    WaitForEver();
  }
  return 99;
}

}  // namespace
}  // namespace leat::launcher

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == leat::launcher::kChild)
    return leat::launcher::Play(argv[2], {argv + 3, argv + argc});
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
