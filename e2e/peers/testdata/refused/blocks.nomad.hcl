job "j" {
  group "g" {
    network { # refused: Not supported; network mode "bridge"
      mode = "bridge"
    }
    update {
      canary = 1 # refused: Not supported; canary
    }
    volume "v" {} # refused: Not supported; volume
    consul {} # refused: Not supported; consul
    task "t" {
      driver = "tacho"
      config {
        command = "x"
      }
      artifact {} # refused: Not supported; artifact
      vault {} # refused: Not supported; vault
      identity {} # refused: Not supported; identity
      volume_mount {} # refused: Not supported; volume_mount
      template {
        source      = "x" # refused: Not supported; source
        destination = "y"
      }
    }
  }
}
