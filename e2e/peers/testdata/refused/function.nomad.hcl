job "j" {
  group "g" {
    task "t" {
      driver = "tacho"
      config {
        command = "x"
      }
      template { # refused: template ${NOMAD_TASK_DIR}/services.conf: line 2: function "nomadServices" is not supported by the agent
        destination = "${NOMAD_TASK_DIR}/services.conf"
        data        = "\n{{ range nomadServices }}{{ end }}"
      }
    }
  }
}
