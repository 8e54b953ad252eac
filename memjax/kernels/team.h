// Threads that do the parts of a job together.
//
// A job has phases, a phase has parts. All parts of a phase are done before any of the next begins. Whoever is free
// takes a part: the caller alone would finish the job too, so that a thread the system does not run delays nothing
// but the parts that it has taken. Of equal parts each thread takes the same one again, which its caches may still hold.

#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>

namespace memjax {

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Team {
 public:
  static constexpr int kMostThreads = 8;
  static constexpr int kMostPhases = 8;
  static constexpr int kMostParts = 4 * kMostThreads;

  // The process has one; it is never destroyed, since its threads may outlive main.
  static Team& Get() {
    static Team* team = new Team;
    return *team;
  }

  // Calls work(phase, part) for each part of each phase; by the caller alone if the team is at another job.
  // Of each phase, parts[phase] says how many there are.
  template <typename Work>
  void Run(int threads, int phases, const int* parts, const Work& work) {
    std::unique_lock<std::mutex> only(busy_, std::try_to_lock);
    if (threads == 1 || !only.owns_lock()) {
      for (int phase = 0; phase < phases; ++phase)
        for (int part = 0; part < parts[phase]; ++part) work(phase, part);
      return;
    }
    threads_ = 1 + Hire(std::min(threads, kMostThreads) - 1);
    // An exception would leave the others at a job that is over.
    work_ = [](const void* context, int phase, int part) noexcept { (*static_cast<const Work*>(context))(phase, part); };
    context_ = &work;
    phases_ = phases;
    for (int phase = 0; phase < phases; ++phase) {
      parts_[phase] = parts[phase];
      done_[phase].store(0, std::memory_order_relaxed);
      for (int part = 0; part < parts[phase]; ++part) taken_[phase][part].store(false, std::memory_order_relaxed);
    }
    open_.store(true);
    number_.fetch_add(1);
    if (asleep_.load() > 0) {
      std::lock_guard<std::mutex> lock(sleep_);
      wake_.notify_all();
    }
    Help(0);
    open_.store(false);
    // Who came late has nothing to do, but may be looking.
    for (int round = 0; helping_.load() > 0; ++round) Wait(round);
  }

 private:
  // Rounds of waiting that come before sleep: more than lies between two layers or tokens.
  static constexpr int kIdleRounds = 20000;
  static constexpr int kRoundsBeforeYield = 4000;

  // Returns how many of so many helpers there are: the system may not give all.
  int Hire(int helpers) {
    try {
      for (; hired_ < helpers; ++hired_) std::thread(&Team::Serve, this, hired_ + 1, number_.load()).detach();
    } catch (const std::system_error&) {
    }
    return std::min(helpers, hired_);
  }

  static void Wait(int round) {
    if (round < kRoundsBeforeYield) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }

  void Serve(int self, int64_t seen) {
    while (true) {
      for (int round = 0; number_.load() == seen && round < kIdleRounds; ++round) Pause();
      if (number_.load() == seen) {
        std::unique_lock<std::mutex> lock(sleep_);
        asleep_.fetch_add(1);
        wake_.wait(lock, [&] { return number_.load() != seen; });
        asleep_.fetch_sub(1);
      }
      seen = number_.load();
      // In this order: the caller either sees a helper, or closes before the helper looks.
      helping_.fetch_add(1);
      if (open_.load()) Help(self);
      helping_.fetch_sub(1);
    }
  }

  void Help(int self) {
    if (self >= threads_) return;
    for (int phase = 0; phase < phases_; ++phase) {
      const int parts = parts_[phase];
      for (int i = 0; i < parts; ++i) {
        const int part = (self * parts / threads_ + i) % parts;
        if (taken_[phase][part].exchange(true, std::memory_order_acq_rel)) continue;
        work_(context_, phase, part);
        done_[phase].fetch_add(1, std::memory_order_release);
      }
      for (int round = 0; done_[phase].load(std::memory_order_acquire) < parts; ++round) Wait(round);
    }
  }

  std::mutex busy_, sleep_;
  std::condition_variable wake_;
  int hired_ = 0;
  std::atomic<int64_t> number_{0};  // of the job
  std::atomic<int> asleep_{0}, helping_{0};
  std::atomic<bool> open_{false};
  void (*work_)(const void*, int, int) = nullptr;
  const void* context_ = nullptr;
  int threads_ = 0, phases_ = 0, parts_[kMostPhases];
  alignas(64) std::atomic<int> done_[kMostPhases];
  alignas(64) std::atomic<bool> taken_[kMostPhases][kMostParts];
};

}  // namespace memjax
