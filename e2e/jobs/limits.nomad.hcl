# Is given limits, which are read back.
job "limits" {
  group "main" {
    task "held" {
      driver = "tacho"
      config {
        command       = "sleep"
        args          = ["100000"]
        oom_score_adj = 300
      }
      resources {
        cpu        = 200
        memory     = 20
        memory_max = 40
      }
    }
  }
}
