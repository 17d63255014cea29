#include "base/exit_status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <system_error>

namespace leat {
namespace {

// Statuses by the name of each code, from rows such as "| stale, internal | 1 |".
std::map<std::string, int> StatusesOfPage() {
  std::ifstream page(LEAT_EXIT_STATUSES_PAGE);
  std::map<std::string, int> statuses;
  bool table = false;
  for (std::string line; std::getline(page, line);) {
    table = line == "| code | status |" || (table && line.starts_with('|'));
    if (!table || line.starts_with("| code") || line.starts_with("|---")) continue;
    const size_t middle = line.find(" | ", 2);
    std::istringstream names(line.substr(2, middle - 2));
    for (std::string name; std::getline(names >> std::ws, name, ',');)
      statuses[name] = std::stoi(line.substr(middle + 3));
  }
  return statuses;
}

TEST(ExitStatus, EveryCodeHasTheOneOfThePage) {
  std::map<std::string, int> expected;
  for (int i = 0; i <= static_cast<int>(Code::kInternal); ++i) {
    const auto code = static_cast<Code>(i);
    expected[std::string(CodeName(code))] = ExitStatusOf(code);
  }
  EXPECT_EQ(StatusesOfPage(), expected);
}

TEST(ExitStatus, WhatMayHealIsStartedAgainForEver) {
  for (const bool coordinator : {false, true}) {
    EXPECT_EQ(AfterExitOf(0, coordinator), AfterExit::kDone);
    EXPECT_EQ(AfterExitOf(2, coordinator), AfterExit::kGiveUp);
    EXPECT_EQ(AfterExitOf(75, coordinator), AfterExit::kRestartForEver);
    EXPECT_EQ(AfterExitOf(137, coordinator), AfterExit::kRestart);
  }
  EXPECT_EQ(AfterExitOf(1, true), AfterExit::kGiveUp) << "it was replaced, or the job has failed";
  EXPECT_EQ(AfterExitOf(1, false), AfterExit::kRestart);
}

template <class Error>
Status Caught(const auto& fail) {
  try {
    fail();
  } catch (const Error& error) {
    return StatusOf(error);
  } catch (...) {
    return {Code::kInternal, "another kind of exception"};
  }
  return {};
}

TEST(ExitStatus, ExceptionsKeepTheCode) {
  const Status away(Code::kUnavailable, "no broker answers"), wrong(Code::kNotFound, "no such topic");
  EXPECT_EQ(Caught<StatusError>([&] { Throw(away); }), away);
  EXPECT_EQ(Caught<std::invalid_argument>([&] { Throw(wrong); }).message(), wrong.message());
  ThrowIfError(Status());
}

TEST(ExitStatus, LackOfMemoryThreadsAndDiskMayHeal) {
  for (const int error : {ENOSPC, EAGAIN, EMFILE, ENOMEM, EDQUOT}) {
    const auto code = StatusOf(std::system_error(error, std::generic_category())).code();
    EXPECT_EQ(ExitStatusOf(code), 75) << error;
  }
  EXPECT_EQ(StatusOf(std::bad_alloc()), Status(Code::kResourceExhausted, "out of memory"));
  EXPECT_EQ(StatusOf(std::system_error(EACCES, std::generic_category())).code(), Code::kPermissionDenied);
  EXPECT_EQ(StatusOf(std::runtime_error("?")).code(), Code::kInternal);
}

}  // namespace
}  // namespace leat
