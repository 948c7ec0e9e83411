// The files of the observer `tensorboard` as records; what TensorBoard reads of them is in
// tests/oracle/tensorboard_events.py.
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>

#include "tests/unit/plugins/observer_events.hpp"

namespace tessera {
namespace tensorboard_test {

using observer_events::run_start;
using observer_events::step_end;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::TestFolder;
namespace fs = std::filesystem;

// CRC-32C bit by bit, masked as the format has it.
u32 checksum(std::string_view bytes) {
  u32 crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<u8>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

template <class T>
T number_at(const std::string& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.substr(at, sizeof value).data(), sizeof value);
  return value;
}

std::vector<std::string> records_of(const TestFolder& folder, const std::string& file) {
  std::vector<std::string> records;
  const std::string bytes = folder.read(file);
  for (std::size_t at = 0; at < bytes.size();) {
    const auto length = number_at<u64>(bytes, at);
    EXPECT_EQ(number_at<u32>(bytes, at + 8), checksum(bytes.substr(at, 8)));
    records.push_back(bytes.substr(at + 12, length));
    EXPECT_EQ(number_at<u32>(bytes, at + 12 + length), checksum(records.back()));
    at += 16 + length;
  }
  return records;
}

std::vector<std::string> files_of(const TestFolder& folder, const std::string& name) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder.at(name))) {
    files.push_back(fs::relative(entry.path(), folder.at("")).string());
  }
  std::ranges::sort(files);
  return files;
}

void tell(const TestFolder& folder, i64 resume_step, const std::vector<StepEnd>& steps) {
  ObserverArguments arguments{folder.path(), resume_step};
  const auto observer = make_plugin<Observer>("tensorboard", "", arguments);
  observer->on(run_start());
  for (const StepEnd& step : steps) observer->on(step);
  observer->on(Validation{2, 0.5, {{"wiki.perplexity", 12.5}}});
  observer->on(Saving{2});
  observer->on(RunEnd{2, 1, false});
}

TEST(TensorBoard, EachStepIsARecordWithItsChecksums) {
  EXPECT_EQ(checksum("123456789"), ((0xE3069283U >> 15) | (0xE3069283U << 17)) + 0xA282EAD8U);
  const TestFolder folder;
  StepEnd passed = step_end(2, 0);
  passed.passed_over = true;
  tell(folder, 0, {step_end(1, 5), passed});
  const std::vector<std::string> files = files_of(folder, "tensorboard");
  ASSERT_THAT(files, SizeIs(1));
  EXPECT_THAT(files[0], HasSubstr("events.out.tfevents."));
  const std::vector<std::string> records = records_of(folder, files[0]);
  ASSERT_THAT(records, SizeIs(3));
  EXPECT_THAT(records[0], HasSubstr("brain.Event:2"));
  for (const char* tag : {"lm loss", "learning-rate", "grad-norm", "iteration-time"}) {
    EXPECT_THAT(records[1], HasSubstr(tag));
  }
  const float five = 5;
  const std::string bytes(reinterpret_cast<const char*>(&five), sizeof five);
  EXPECT_THAT(records[1], HasSubstr("lm loss\x15" + bytes));
  EXPECT_THAT(records[2], HasSubstr("lm loss validation"));
  EXPECT_THAT(records[2], HasSubstr("wiki.perplexity"));
}

TEST(TensorBoard, AResumedRunTakesBackLaterStepsAndANewOneKeepsAnEarlierOne) {
  const TestFolder folder;
  tell(folder, 0, {step_end(1, 5), step_end(2, 4)});
  tell(folder, 1, {step_end(2, 4)});
  std::vector<std::string> files = files_of(folder, "tensorboard");
  ASSERT_THAT(files, SizeIs(2));
  int begun = 0;
  for (const std::string& file : files) {
    // Event.step = 2, Event.session_log = {status = START}.
    for (const std::string& record : records_of(folder, file)) {
      begun += record.ends_with(std::string("\x10\x02\x3a\x02\x08\x01")) ? 1 : 0;
    }
  }
  EXPECT_EQ(begun, 1);
  tell(folder, 0, {step_end(1, 5)});
  EXPECT_THAT(files_of(folder, "tensorboard"), SizeIs(1));
  EXPECT_EQ(files_of(folder, "tensorboard.1").size(), 2U);
}

}  // namespace tensorboard_test
}  // namespace tessera
