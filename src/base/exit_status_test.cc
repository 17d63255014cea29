#include "base/exit_status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <system_error>

namespace leat {
namespace {

// The table of docs/exit-statuses.md.
TEST(ExitStatus, EveryCodeHasOne) {
  const std::map<Code, int> expected = {{Code::kOk, 0},
                                        {Code::kInvalidArgument, 2},
                                        {Code::kNotFound, 2},
                                        {Code::kPermissionDenied, 2},
                                        {Code::kDeadlineExceeded, 75},
                                        {Code::kUnavailable, 75},
                                        {Code::kStale, 1},
                                        {Code::kDataLoss, 2},
                                        {Code::kFailedPrecondition, 2},
                                        {Code::kResourceExhausted, 75},
                                        {Code::kAborted, 130},
                                        {Code::kInternal, 1}};
  ASSERT_EQ(expected.size(), static_cast<size_t>(Code::kInternal) + 1);
  for (const auto& [code, status] : expected) EXPECT_EQ(ExitStatusOf(code), status) << CodeName(code);
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
